"""README.md of an exported folder: metadata for the Hugging Face Hub, the test figures, and how the model is loaded."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headswap.bundle.bundle import Bundle
from headswap.bundle.card import MEMORISED, result_lines
from headswap.bundle.card_data import card_data, front_matter
from headswap.bundle.untrusted import CARD

log = logging.getLogger("headswap")

LONG = {"head+tail": "their beginning and their end", "windows": "all of them, in windows"}
"""What headswap reads of long texts, where it is not their beginning."""
THRESHOLDS = (
    "A label is predicted if its probability is at least its threshold. `thresholds` of the model's `config.json` has "
    "them in the order of the labels; a program that uses this folder must apply them itself."
)
PIPELINES = {
    "feature-extraction": '"your text"',
    "text-classification": '"your text"',
    "token-classification": '"your text"',
    "text-generation": '"your prompt"',
    "fill-mask": 'f"a {answer.tokenizer.mask_token} text"',
}
"""Pipelines of transformers 5 with the argument of an example; question answering has none there."""


def write_card(
    bundle: Bundle,
    folder: Path,
    *,
    library: str,
    use: str,
    tags: Sequence[str] = (),
    pipeline_tag: str | None = None,
    with_head: bool = True,
    measured: str = "before the export",
) -> None:
    """Write the card; `use` is Markdown. A card without the head has no figures, which are those of the head."""
    tags = ("headswap", *tags)
    data: dict[str, Any] = card_data(bundle, library=library, pipeline_tag=pipeline_tag, tags=tags, with_head=with_head)
    what = bundle.what.partition(" ")[2] if with_head else "text embedder"
    lines = [*front_matter(data), f"# A {what} for {library}", "", "Exported with headswap.", "", use]
    sentences = (long_texts(bundle), THRESHOLDS if bundle.task.thresholds else None)
    lines += [line for sentence in sentences if sentence and with_head for line in ("", sentence)]
    figures = result_lines(bundle) if with_head else []
    if figures:
        lines += [*figures, "", f"The figures were measured {measured}."]
    if bundle.model.shape.head == "lm" and with_head:
        lines += ["", "## Limits", "", MEMORISED]
    (folder / CARD).write_text("\n".join(lines) + "\n", encoding="utf-8")


def long_texts(bundle: Bundle) -> str | None:
    """How long texts of a classifier are read otherwise than by headswap; None if they are not.

    Tokens and spans are always read in windows, which no format has (docs/onnx.md).
    """
    state = bundle.task
    if bundle.model.shape.head != "classify" or state.long == "truncate":
        return None
    return (
        f"Texts of more than {state.max_length or bundle.max_length:,} tokens get other answers than in headswap: the "
        f"exported tokenizer keeps only their beginning, and headswap reads {LONG[state.long]} (--long {state.long})."
    )


def warn_of_long_texts(bundle: Bundle) -> None:
    """Log a warning if long texts are read otherwise than by headswap."""
    if sentence := long_texts(bundle):
        log.warning("%s", sentence)


def python_block(*lines: str) -> str:
    """Code of a card."""
    return "\n".join(("```python", *lines, "```"))


def use_with_transformers(pipeline_tag: str, auto_class: str) -> str:
    """Code that loads a checkpoint in this folder."""
    if pipeline_tag in PIPELINES:
        return python_block(
            "import transformers",
            "",
            f'answer = transformers.pipeline("{pipeline_tag}", ".")',
            f"print(answer({PIPELINES[pipeline_tag]}))",
        )
    return python_block(
        "import transformers",
        "",
        f'model = transformers.{auto_class}.from_pretrained(".")',
        'tokenizer = transformers.AutoTokenizer.from_pretrained(".")',
        'print(model(**tokenizer("your question", "a context", return_tensors="pt")))',
    )
