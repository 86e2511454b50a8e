"""Checks before a bundle from somebody else is read: no file outside its folder, no memory beyond its weights."""

from pathlib import Path

from headswap.core.errors import InputError
from headswap.model.text_model import ModelShape
from headswap.model.weights import open_weights

WEIGHTS, CONFIG, GOLDEN, CARD = "model.safetensors", "config.json", "golden.json", "README.md"


def check_inside(folder: Path) -> None:
    """Refuse a bundle whose files are links out of its folder: loading it would read files that are not part of it."""
    for name in (CONFIG, WEIGHTS, "tokenizer.json", GOLDEN):
        if (folder / name).is_symlink() and folder.resolve() not in (folder / name).resolve().parents:
            raise InputError(
                f"{folder / name} is a link out of the bundle. Copy the file itself into it, for example with: cp -L"
            )


def check_size(shape: ModelShape, folder: Path) -> None:
    """Refuse a config whose model is far larger than its weights file, before memory is allocated for it."""
    base = shape.base
    fewest = base.vocab_size * base.hidden_size + base.num_hidden_layers * base.hidden_size**2
    with open_weights(folder / WEIGHTS):
        size = (folder / WEIGHTS).stat().st_size
    if fewest > size:
        raise InputError(
            f"{folder / CONFIG} describes a model of {fewest:,} numbers and more (vocab_size {base.vocab_size:,}, "
            f"hidden_size {base.hidden_size:,}, num_hidden_layers {base.num_hidden_layers:,}), and {WEIGHTS} has "
            f"{size:,} bytes: it is damaged or not this model's. Restore both files from a copy."
        )
