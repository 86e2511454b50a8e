"""Checks before a bundle from somebody else is read: no file outside its folder, no memory beyond its weights, and the
config and labels that were saved."""

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from headswap.core.errors import InputError, raise_problems
from headswap.core.files import sha256_of_file
from headswap.core.manifest import MANIFEST, saved_sha256
from headswap.model.text_model import ModelShape
from headswap.model.weights import open_weights

WEIGHTS, CONFIG, GOLDEN, CARD = "model.safetensors", "config.json", "golden.json", "README.md"
LAYER = re.compile(r"base\.layers\.(\d+)\.")


def check_inside(folder: Path) -> None:
    """Refuse a bundle whose files are links out of its folder: loading it would read files that are not part of it."""
    for name in (CONFIG, WEIGHTS, "tokenizer.json", GOLDEN):
        if (folder / name).is_symlink() and folder.resolve() not in (folder / name).resolve().parents:
            raise InputError(
                f"{folder / name} is a link out of the bundle. Copy the file itself into it, for example with: cp -L"
            )


def check_sizes(shape: ModelShape, folder: Path) -> None:
    """Refuse a config whose sizes differ from those of the tensors, before memory is allocated for the model.

    Only the header of the weights is read. Sinusoidal and rotary positions have no tensor; their tables grow with the
    sequences that are read (model/base.py).
    """
    with open_weights(folder / WEIGHTS) as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - no mapping
    problems = []
    for setting, value, (tensor, dimension) in _sizes(shape, shapes):
        if tensor not in shapes or len(shapes[tensor]) <= dimension:
            problems.append(f"{folder / WEIGHTS}: the tensor {tensor} is missing or has too few dimensions.")
        elif shapes[tensor][dimension] != value:
            found = shapes[tensor][dimension]
            problems.append(f"{folder / CONFIG}: {setting} is {value:,}, but {tensor} in {WEIGHTS} has {found:,}.")
    found = len({match[1] for name in shapes if (match := LAYER.match(name))})
    if found != shape.base.num_hidden_layers:
        value = shape.base.num_hidden_layers
        problems.append(f"{folder / CONFIG}: num_hidden_layers is {value:,}, but {WEIGHTS} has {found:,} layers.")
    raise_problems(problems, hint="One of the two files is damaged or from another model. Restore both from a copy.")


def _sizes(shape: ModelShape, names: Iterable[str]) -> Iterator[tuple[str, int, tuple[str, int]]]:
    """Each size of a config, and the tensor and dimension that has it."""
    base = shape.base
    yield "vocab_size", base.vocab_size, ("base.embedding.weight", 0)
    yield "hidden_size", base.hidden_size, ("base.embedding.weight", 1)
    yield "intermediate_size", base.intermediate_size, ("base.layers.0.feed_forward.up.weight", 0)
    if base.positions == "learned":
        yield "max_position_embeddings", base.max_position_embeddings, ("base.position_embedding.weight", 0)
    if base.type_vocab_size:
        yield "type_vocab_size", base.type_vocab_size, ("base.segment_embedding.weight", 0)
    if shape.num_labels is not None:
        yield "num_labels", shape.num_labels, ("head.output.weight", 0)
    if shape.lora is not None:
        adapter = next((name for name in names if name.endswith(".lora_down")), "base.layers.0.attention.qkv.lora_down")
        yield "lora.rank", shape.lora.rank, (adapter, 0)


def check_config_unchanged(folder: Path) -> None:
    """Refuse a config.json that was edited after the bundle was saved; a bundle without a manifest is not checked."""
    saved = saved_sha256(folder, CONFIG)
    if saved is not None and saved != sha256_of_file(folder / CONFIG):
        raise InputError(
            f"{folder / CONFIG} was changed after the bundle was saved: its SHA-256 differs from that in {MANIFEST}. "
            f"Restore it from a copy. To rename labels use: headswap labels {shlex.quote(str(folder))} OLD=NEW"
        )
