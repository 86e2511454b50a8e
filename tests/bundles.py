"""Small untrained bundles with each kind of head."""

import json
from pathlib import Path

from headswap.bundle.bundle import Bundle
from headswap.bundle.task_state import TaskState
from headswap.core.manifest import write_manifest
from headswap.model.text_model import build_model
from headswap.tokens.tokenizer import Tokenizer
from tiny import tiny_model_shape


def make_bundle(tokenizer: Tokenizer, head: str = "classify", preset: str = "small", **changes: object) -> Bundle:
    """A bundle with a head, a preset and changes of the shape."""
    classifier = changes.pop("classifier", None)
    shape = tiny_model_shape(preset, head=head, vocab_size=tokenizer.vocab_size, **changes)
    shape = shape.changed(classifier=classifier) if classifier else shape
    labels = {"lm": (), "span": ("start", "end")}.get(head, ("bad", "good", "middling"))
    task = "classify" if head in ("lm", "compare") else head
    state = TaskState(task=task, max_length=30, reads_pairs=head == "compare")
    problem_type = "single_label_classification" if head in ("classify", "compare") else None
    return Bundle(
        build_model(shape, seed=3), tokenizer, labels, "causal", {"seed": 3}, task=state, problem_type=problem_type
    )


def edit_config(folder: Path, **changes: object) -> None:
    """Change entries of config.json (None removes one) and write the manifest again."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8")) | changes
    kept = {name: value for name, value in config.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(kept), encoding="utf-8")
    write_manifest(folder)
