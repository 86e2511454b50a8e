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
"""A study that fits two cores and six minutes."""
ARMS = ("majority", "tfidf", "scratch", "pretrained")


def demo(
    *,
    out: Path = Path("runs/demo"),
    minutes: float = 1.0,
    seeds: int = 3,
    jobs: int = 2,
    overwrite: Annotated[bool, switch("Replace the demo in the folder, after all checks.")] = False,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> int:
    """The study in small, on film reviews that come along (about 5 minutes).

    Pre-trains a small base on IMDb texts, fine-tunes it and the same model from scratch on 100 and 400 Rotten Tomatoes
    sentences, with TF-IDF and the majority class beside them, and writes a report. Where the base box:reviews-en is
    installed, which was pre-trained for longer, it is fine-tuned too.

    Parameters
    ----------
    out
        Folder of the study; a demo that was stopped goes on there.
    minutes
        How long to pre-train.
    seeds
        How often each model is fine-tuned.
    jobs
        Fine-tunings at a time.
    """
    from headswap.cli.study import run_study_verb

    sections = DEMO | {
        "study": DEMO["study"] | {"seeds": seeds, "arms": (*ARMS, *_boxed(quiet=flags.quiet))},
        "pretrain": DEMO["pretrain"] | {"max_minutes": minutes},
    }
    more = StudyFlags(json=flags.json, quiet=flags.quiet, overwrite=overwrite, jobs=jobs)
    return run_study_verb(out, more, sections)


def _boxed(*, quiet: bool) -> tuple[str, ...]:
    """The arm `box`, or nothing and a line that says why."""
    from headswap.cli.display import start_messages
    from headswap.core.errors import HeadswapError
    from headswap.core.installed_bases import OWN_BASE, PREFIX, checked_base
    from headswap.study.arms import BOX

    try:
        checked_base(f"{PREFIX}{OWN_BASE}")
    except HeadswapError:
        if not quiet:
            told = f"The base {PREFIX}{OWN_BASE} cannot be used here, so its arm is left out (headswap bases says why)."
            start_messages(quiet=quiet).print(told)
        return ()
    return (BOX,)
