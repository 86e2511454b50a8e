"""The check of a bundle: is it complete, and does it compute the same as when it was saved?

Every check runs, also after one that failed, and reports what it checked.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headswap.bundle.bundle import CONFIG, GOLDEN, WEIGHTS, Bundle, find_bundle
from headswap.core.errors import HeadswapError, counted
from headswap.core.files import read_json
from headswap.core.manifest import MANIFEST, manifest_problems
from headswap.tokens.tokenizer import Tokenizer

PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib")


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    is_sound: bool
    message: str

    def as_json(self) -> dict[str, Any]:
        """The check for `--json`."""
        return asdict(self)


def check_bundle(path: str | Path) -> list[Check]:
    """The results of all checks of a bundle, or of the bundle of a run folder."""
    folder = find_bundle(Path(path))
    return [_run_check(name, check, folder) for name, check in CHECKS.items()]


def _run_check(name: str, check: Callable[[Path], str], folder: Path) -> Check:
    """The result of a check: its sentence, or the error that it raised."""
    try:
        return Check(name, True, check(folder))
    except HeadswapError as problem:
        return Check(name, False, str(problem))


class _UnsoundError(HeadswapError):
    """What a check found wrong."""


def _files(folder: Path) -> str:
    if not (folder / MANIFEST).is_file():
        raise _UnsoundError(f"{folder} has no {MANIFEST}, so its files cannot be checked. Save it again.")
    if problems := manifest_problems(folder):
        raise _UnsoundError(" ".join(problems) + " Restore the bundle from a copy.")
    return (
        f"{counted(len(read_json(folder / MANIFEST)['files']), 'file')}, each with the size and SHA-256 of the manifest"
    )


def _foreign_files(folder: Path) -> str:
    entries = list(folder.iterdir())
    if links := [entry.name for entry in entries if entry.is_symlink()]:
        raise _UnsoundError(
            f"{folder / links[0]} is a link. A bundle must contain its files. Replace the link by the file."
        )
    if pickles := [entry.name for entry in entries if entry.suffix in PICKLES]:
        raise _UnsoundError(
            f"{folder / pickles[0]} may be a pickle, which can run code when another tool loads it. Remove it."
        )
    return "no links, no pickles"


def _tokenizer(folder: Path) -> str:
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    config = read_json(folder / CONFIG)
    wanted = config.get("tokenizer_fingerprint") if isinstance(config, dict) else None
    if wanted != tokenizer.fingerprint:
        raise _UnsoundError(
            f"{folder / 'tokenizer.json'} has the fingerprint {tokenizer.fingerprint}, the model was trained with "
            f"{wanted}. Restore the original."
        )
    return f"fingerprint {tokenizer.fingerprint} in tokenizer and model"


def _labels(folder: Path) -> str:
    config = read_json(folder / CONFIG)
    if not isinstance(config, dict) or "id2label" not in config:
        return "the head has no labels"
    names, numbers = config["id2label"], config.get("label2id")
    is_complete = (
        isinstance(names, dict)
        and set(names) == {str(number) for number in range(len(names))}
        and len(set(map(str, names.values()))) == len(names)
        and numbers == {label: int(number) for number, label in names.items()}
    )
    if not is_complete:
        raise _UnsoundError(f"{folder / CONFIG}: id2label and label2id do not map every label to one number and back.")
    return f"{counted(len(names), 'label')}, each mapped to one number and back"


def _weights(folder: Path) -> str:
    state = Bundle.load(folder).model.state_dict()
    if broken := [name for name, tensor in state.items() if not tensor.isfinite().all()]:
        raise _UnsoundError(f"{folder / WEIGHTS}: {broken[0]} holds numbers that are not finite. Restore the file.")
    return f"{counted(len(state), 'tensor')}, {sum(tensor.numel() for tensor in state.values()):,} numbers, all finite"


def _golden(folder: Path) -> str:
    try:
        problems = Bundle.load(folder).verify()
    except (KeyError, TypeError, ValueError) as problem:
        raise _UnsoundError(f"{folder / GOLDEN} holds no golden outputs ({problem!r}). Restore it.") from None
    if problems:
        raise _UnsoundError(f"{problems[0]} The model computes other outputs than when it was saved.")
    return "the model computes the recorded outputs"


CHECKS: dict[str, Callable[[Path], str]] = {
    "files": _files,
    "nothing foreign": _foreign_files,
    "tokenizer": _tokenizer,
    "labels": _labels,
    "weights": _weights,
    "golden outputs": _golden,
}
