"""The model card of a bundle, `README.md`: settings, figures and how to use the model. It contains no text of the user
and no absolute path."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headswap.bundle.card_data import EVALUATION, METRICS, card_data, evaluation_of, front_matter
from headswap.core.document_text import markdown
from headswap.core.installed_bases import PREFIX
from headswap.core.local_paths import CHECKPOINT, shared_name
from headswap.model.parameter_count import count_parameters

if TYPE_CHECKING:
    from headswap.bundle.bundle import Bundle

TOKENS_TRAINED = "tokens read"
"""The card's key for the number of tokens that the base was trained on."""
FORMER_KEY = "went " + "on from"  # of bundles that earlier versions adapted
BASE_KEYS = ("base", "adapted from", FORMER_KEY)
"""The card's keys for the base that a model was made from."""
MOST_LABELS = 50
MEMORISED = (
    "A language model can emit text that it was trained on, word for word. Do not pass on a model that was trained on "
    "text that must not be passed on."
)
USE = """
## How to use it

In this folder, in a shell:

```sh
{shell}
```

In Python:

```python
import headswap

model = headswap.load(".")
{python}
```
"""


def card_text(bundle: "Bundle") -> str:
    """The whole card, in Markdown."""
    shape = bundle.model.shape
    counts = count_parameters(bundle.model)
    use = bundle.uses[0]
    attention = "causal and bidirectional" if bundle.reads_both_ways else shape.direction
    lines = [
        *front_matter(card_data(bundle)),
        f"# A headswap {use.what.partition(' ')[2]}",
        "",
        f"- {shape.base.num_hidden_layers} layers of {shape.base.hidden_size}, {attention} attention, vocabulary "
        f"{shape.base.vocab_size:,}, at most {shape.base.max_position_embeddings} tokens",
        f"- {counts.total:,} parameters ({counts.parts[0].count:,} of them in the embedding)",
        f"- tokenizer fingerprint `{bundle.tokenizer.fingerprint}`",
    ]
    if shape.head != "lm":
        lines.append(f"- task: {bundle.task.task}")
    if bundle.labels:
        more = len(bundle.labels) - MOST_LABELS
        shown = ", ".join(map(markdown, bundle.labels[:MOST_LABELS])) + (f" and {more:,} more" if more > 0 else "")
        lines.append(f"- labels: {shown}")
    lines += ["", "## How it was made", ""]
    facts = {key: value for key, value in bundle.card.items() if key != EVALUATION}
    lines += [f"- {markdown(key)}: {markdown(_shown(key, value))}" for key, value in facts.items()] or [
        "- not recorded"
    ]
    lines += result_lines(bundle)
    if shape.head == "lm":
        lines += ["", "## Limits", "", MEMORISED]
    shell = "\n".join(f"headswap {one.verb} . {one.arguments}" for one in bundle.uses)
    python = "\n".join(f"print(model.{one.verb}({one.call}))" for one in bundle.uses)
    return "\n".join(lines) + "\n" + USE.format(shell=shell, python=python)


def result_lines(bundle: "Bundle") -> list[str]:
    """The figures on the test set; none if the model was not tested."""
    evaluation = evaluation_of(bundle.card)
    if evaluation is None:
        return []
    figures = [f"- {METRICS[name].name}: {value:z.4f}" for name, value in evaluation.metrics.items()]
    what = f"Measured once on {evaluation.examples:,} examples of {markdown(evaluation.data)}:"
    return ["", "## Results", "", what, "", *figures]


def _shown(key: str, value: Any) -> Any:
    """A value of the card; of a path only the name, since folders of the machine that trained do not concern others."""
    if isinstance(value, str | os.PathLike) and (key in BASE_KEYS or Path(value).is_absolute()):
        return _base_name(str(value))
    return value


def _base_name(path: str) -> str:
    """The name of a bundle's folder or of its run folder; `box:NAME` is kept."""
    if path.startswith((PREFIX, CHECKPOINT)):
        return shared_name(path)
    folder = Path(os.path.abspath(path))
    return folder.parent.name if folder.name == "bundle" else folder.name
