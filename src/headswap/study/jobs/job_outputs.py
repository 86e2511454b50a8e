"""Check the outputs of a job: it counts as done only if they are intact, and a damaged job is run again.

The last file that a job writes is a manifest of checksums. Studies of earlier versions have no manifest, so the files
themselves are checked as well: they can be read, they have the fields that the report needs, and their lengths agree. A
fine-tuning run must also have started from the present weights of its base. The manifest leaves out `metrics.jsonl`,
whose last line may be incomplete, and fine-tuned bundles, which no other job reads.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from headswap.baselines.lsa_space import ARRAYS, TextSpace
from headswap.bundle.bundle import CARD, WEIGHTS
from headswap.core.errors import HeadswapError, InputError
from headswap.core.files import parse_json, read_json
from headswap.core.manifest import MANIFEST, manifest_problems, write_manifest
from headswap.core.settings import Recipe, load_recipe, read_toml
from headswap.data.documents import read_texts
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.prediction_file import RUN_AGAIN, load_predictions, text_ids
from headswap.model.swap import checksum
from headswap.model.weights import open_weights
from headswap.pretraining.config import AdaptRecipe, PretrainRecipe
from headswap.study.jobs.embeddings import ARRAYS as EMBEDDINGS
from headswap.study.jobs.embeddings import Embeddings
from headswap.study.jobs.job_id import bundle_content
from headswap.study.setup.row_files import text_of_row
from headswap.study.setup.unlabelled_sample import FILE as SAMPLE
from headswap.tokens.tokenizer import Tokenizer
from headswap.training.checkpoint import find_checkpoints
from headswap.training.run_folder import METRICS, read_metrics

RESULT = "result.json"
NUMBER = (int, float)
RECIPES: dict[str, type[Recipe]] = {
    "pretrain": PretrainRecipe, "adapt": AdaptRecipe, "finetune": FinetuneRecipe
}  # fmt: skip
BASE_FIELDS = {"verb": str, "objective": str, "steps": int, "tokens": int, "seconds": NUMBER}
FIELDS: dict[str, dict[str, Any]] = {
    "tokenizer": {"verb": str, "vocab_size": int, "fingerprint": str},
    "pretrain": BASE_FIELDS,
    "adapt": BASE_FIELDS,
    "finetune": {"verb": str, "num_train": int, "num_validation": int, "tokens": int, "seconds": NUMBER, "test": dict},
    "baseline": {"verb": str, "arm": str, "num_labels": int, "seconds": NUMBER},
    "embed": {"verb": str, "dimensions": int, "fingerprint": str, "weights": str, "seconds": NUMBER},
    "linear": {"verb": str, "arm": str, "num_labels": int, "embeddings": str, "seconds": NUMBER},
    "sample": {"verb": str, "num_texts": int, "num_sampled": int, "seconds": NUMBER},
    "space": {"verb": str, "num_documents": int, "num_words": int, "dimensions": int, "fingerprint": str},
    "answers": {"verb": str, "arm": str, "file": str, "sha256": str},
    "probe": {
        "step_seconds": NUMBER, "tokens_a_step": NUMBER, "score_seconds": NUMBER, "bytes_a_token": NUMBER,
        "num_parameters": int, "num_embedding_parameters": int, "max_length": int, "device": str,
    },
}  # fmt: skip
"""Required fields of `result.json`, per kind of job."""
ENVIRONMENT = {"python": str, "processor": str, "device": str, "precision": str, "threads": int, "versions": dict}
Signature = tuple[tuple[str, int, int, int], ...]


class DamageError(InputError):
    """A file of a job is damaged."""


def write_checksums(folder: Path) -> None:
    """Write the manifest of a finished job."""
    write_manifest(folder, leave=(METRICS,))


def has_finished(folder: Path) -> bool:
    """Whether the job of a folder has finished, intact or damaged."""
    return any((folder / name).exists() for name in (RESULT, MANIFEST))


def damage(kind: str, folder: Path, *, base: Path | None = None, test: Path | None = None) -> str | None:
    """What is wrong with the folder of a finished or unfinished job; None if it is intact or does not exist.

    `base` is the folder of the base that a fine-tuning run starts from, or of the space of texts of a baseline; `test`
    is the test set of the study.
    """
    if not folder.exists():
        return None
    if not folder.is_dir():
        return "its folder is a file"
    why = _first_damage(kind, folder, _signature(folder), test, _signature(test) if test and test.is_file() else ())
    if why is None and base is not None and has_finished(base):
        if kind == "baseline":
            return _space_mismatch(folder, base) if damage("space", base) is None else None
        if kind == "linear":  # in a report `base` is the base itself, which the vectors are compared with
            is_vectors = (base / EMBEDDINGS).exists() and damage("embed", base) is None
            return _embeddings_mismatch(folder, base) if is_vectors else None
        if kind == "embed":
            return _weights_mismatch(folder, base) if damage(_kind_of_base(base), base) is None else None
        if damage(_kind_of_base(base), base) is None:
            return _base_mismatch(folder, base)
    return why


def _kind_of_base(folder: Path) -> str:
    """`adapt` or `pretrain`; a damaged recipe is found later."""
    with suppress(HeadswapError, OSError):
        return "adapt" if read_toml(folder / "recipe.toml").get("verb") == "adapt" else "pretrain"
    return "pretrain"


def _signature(place: Path) -> Signature:
    """Sizes and times of the files of a job: while they stay the same, no file is hashed again."""
    files = [place] if place.is_file() else [file for part in (place, place / "bundle") for file in part.glob("*")]
    found = []
    for file in sorted(files):
        with suppress(FileNotFoundError):  # removed meanwhile by a job whose study was killed
            stat = file.lstat()
            found.append((str(file), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))
    return tuple(found)


@cache
def _first_damage(kind: str, folder: Path, _state: Signature, test: Path | None, test_state: Signature) -> str | None:
    try:
        if has_finished(folder):
            _check_finished(kind, folder, test if test_state else None)
        else:
            _check_unfinished(kind, folder)
    except DamageError as problem:
        return str(problem)
    return None


def _check_finished(kind: str, folder: Path, test: Path | None) -> None:
    has_checksums = (folder / MANIFEST).exists()
    if has_checksums:
        _raise_first(manifest_problems(folder), folder)
    _check_fields(folder / RESULT, FIELDS[kind])
    if kind == "tokenizer":
        _check_tokenizer(folder)
    if kind == "space":
        _read(lambda: TextSpace.load(folder), folder / ARRAYS)
    if kind == "sample":
        _read(lambda: read_texts(str(folder / SAMPLE), text_column="text"), folder / SAMPLE)
    if kind in RECIPES:
        _check_recipe(kind, folder)
        _check_fields(folder / "environment.json", ENVIRONMENT)
        if not _read(lambda: read_metrics(folder), folder / METRICS):
            raise DamageError(f"{METRICS} has no complete line")
    if kind == "embed":
        _read(lambda: Embeddings.load(folder), folder / EMBEDDINGS)
    if kind in ("pretrain", "adapt", "finetune", "baseline", "answers", "linear"):
        _check_fields(folder / "data.json", {})
    if kind in ("pretrain", "adapt"):
        _raise_first(manifest_problems(folder / "bundle", leave=(CARD,)), folder)
    if kind in ("finetune", "baseline", "answers", "linear"):
        predictions = _read(lambda: load_predictions(folder), folder / "predictions.npz")
        if test is not None and not has_checksums and not np.array_equal(predictions.text_ids, _ids_of(test)):
            raise DamageError(f"predictions.npz does not belong to the {len(_ids_of(test)):,} texts of {test.name}")


def _check_unfinished(kind: str, folder: Path) -> None:
    """Check the files that an unfinished job needs to resume; the trainings check checkpoints and metrics."""
    if kind not in RECIPES:
        return
    if (folder / "recipe.toml").exists():
        _check_recipe(kind, folder)
    elif find_checkpoints(folder / "checkpoints"):
        raise DamageError("it has checkpoints but no recipe.toml")
    if (folder / "data.json").exists():
        _check_fields(folder / "data.json", {})


def _check_fields(file: Path, fields: dict[str, Any]) -> None:
    content = _read(lambda: read_json(file), file)
    if not isinstance(content, dict):
        raise DamageError(f"{file.name} is not a JSON object")
    for name, kind in fields.items():
        if not isinstance(content.get(name), kind) or isinstance(content[name], bool):
            raise DamageError(f"the field '{name}' of {file.name} is missing or has the wrong type")


def _check_recipe(kind: str, folder: Path) -> None:
    file = folder / "recipe.toml"
    _read(lambda: load_recipe(RECIPES[kind], file), file)
    if read_toml(file).get("verb") != kind:
        raise DamageError(f"recipe.toml is not a recipe of headswap {kind}")


def _check_tokenizer(folder: Path) -> None:
    file = folder / "tokenizer.json"
    tokenizer = _read(lambda: Tokenizer.load(file), file)
    if tokenizer.fingerprint != read_json(folder / RESULT)["fingerprint"]:
        raise DamageError("the fingerprint of tokenizer.json is not the one in result.json")


def _read(read: Callable[[], Any], file: Path) -> Any:
    """The content of a file; a file that cannot be read is a short `DamageError`."""
    try:
        return read()
    except (HeadswapError, OSError) as problem:
        if not file.exists():
            why = f"{file.name} is missing"
        elif file.is_file() and not file.stat().st_size:
            why = f"{file.name} is empty"
        elif file.suffix == ".json":
            why = f"{file.name} is not valid"
        else:
            first_line = str(problem).splitlines()[0].removesuffix(RUN_AGAIN).rstrip(".")
            why = first_line.replace(f"{file.parent}/", "")
        raise DamageError(why) from None


def _raise_first(problems: list[str], folder: Path) -> None:
    if problems:
        raise DamageError(problems[0].replace(f"{folder}/", "").rstrip("."))


@cache
def _ids_at(test: Path, _state: Signature) -> np.ndarray:
    with test.open(encoding="utf-8") as rows:
        return text_ids([text_of_row(parse_json(row)) for row in rows])


def _ids_of(test: Path) -> np.ndarray:
    return _ids_at(test, _signature(test))


def _base_mismatch(folder: Path, base: Path) -> str | None:
    """Whether a fine-tuning run started from other weights than its base has now, by the checksums in its ledger."""
    file = folder / "ledger.json"
    try:
        rows = read_json(file)["tensors"]
        kept = {row["tensor"]: row["checksum"] for row in rows if row["status"] == "carried"}
    except (HeadswapError, OSError, KeyError, TypeError):
        if not has_finished(folder):  # a resumed job writes the ledger again
            return None
        return "ledger.json is missing" if not file.exists() else "ledger.json is not valid"
    now = _checksums(base, _signature(base))
    is_same = bool(kept) and all(now.get(name) == value for name, value in kept.items())
    return None if is_same else f"it started from other weights than {base.name} has now"


def _space_mismatch(folder: Path, space: Path) -> str | None:
    """Whether a finished baseline was fitted in another space of texts than the present one."""
    if not has_finished(folder) or read_json(folder / RESULT).get("space") == read_json(space / RESULT)["fingerprint"]:
        return None
    return f"it was fitted in another space of texts than {space.name} has now"


def _embeddings_mismatch(folder: Path, embeddings: Path) -> str | None:
    """Whether a finished linear arm was fitted to other vectors than the present ones."""
    now = read_json(embeddings / RESULT)["fingerprint"]
    if not has_finished(folder) or read_json(folder / RESULT).get("embeddings") == now:
        return None
    return f"it was fitted to other vectors than {embeddings.name} has now"


def _weights_mismatch(folder: Path, base: Path) -> str | None:
    """Whether finished vectors are of other weights than the base has now."""
    if not has_finished(folder) or read_json(folder / RESULT)["weights"] == _weights_hash(base, _signature(base)):
        return None
    return f"it has vectors of other weights than {base.name} has now"


@cache
def _weights_hash(base: Path, _state: Signature) -> str:
    return bundle_content(str(base))[0]


@cache
def _checksums(base: Path, _state: Signature) -> dict[str, str]:
    with open_weights(base / "bundle" / WEIGHTS) as file:
        return {name: checksum(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118 - no mapping
