"""The demo: the whole road on film reviews, in minutes on a laptop.

Pre-trains a small causal base on IMDb texts, then fine-tunes it and the same model from scratch on a few hundred Rotten
Tomatoes sentences, several seeds each, with TF-IDF and the majority class beside them.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from headswap.study.comparison import Arm, Comparison, Sections, compare_arms
from headswap.study.figures import draw_comparison
from headswap.training.observer import Observer
from headswap.training.pretrain import pretrain

LENGTH = 64
MODEL = {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 512}
TOKENIZER = {"vocab_size": 4_096, "lowercase": True}
LABELLED = "movies:rotten-tomatoes"


def run_demo(
    out: Path,
    *,
    minutes: float,
    num_labels: int,
    seeds: Sequence[int],
    observer: Observer | None = None,
    on_arm: Callable[[str, int], None] = lambda name, seed: None,
) -> Comparison:
    """Pre-train, swap, fine-tune, compare; everything is kept under `out` and a second call goes on where it was."""
    base = pretrain(
        out=out / "base",
        sections={
            "corpus": {"corpus": ("movies",)},
            "tokenizer": TOKENIZER,
            "model": MODEL,
            "training": {"max_length": LENGTH, "batch_size": 32, "learning_rate": 2e-3, "max_minutes": minutes},
        },
        resume=True,
        observer=observer,
    )
    arms = (
        Arm("scratch", {"model": {"base": "scratch", **MODEL}, "tokenizer": {"tokenizer": str(base.path)}}),
        Arm("pretrained", {"model": {"base": str(base.path)}}),
    )
    shared: Sections = {
        "data": {"train": LABELLED, "test": f"{LABELLED}/test", "num_train": num_labels},
        "training": {"max_length": LENGTH, "num_train_epochs": 6, "learning_rate": 5e-4},
    }
    comparison = compare_arms(out, arms, shared, seeds=seeds, observer=observer, on_arm=on_arm)
    title = (
        f"Rotten Tomatoes, {num_labels:,} labels, {len(seeds)} seeds: scratch against {minutes:g} min of pre-training"
    )
    draw_comparison(comparison, out / "comparison", title=title)
    return comparison
