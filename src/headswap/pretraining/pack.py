"""Packing: turn a finished pre-training run into a base that can be distributed as a Python package.

`bundle/` has the weights, rounded to bf16. Golden outputs and the held-out loss on the card are computed with the
rounded weights. `record/` has the files of the run (recipe, metrics, result) and a reference: sentences, and the loss
that the base must have on them. docs/bases.md explains how a package makes a base available.
"""

import copy
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from headswap.bundle.bundle import OWN_FILES as BUNDLE
from headswap.bundle.bundle import Bundle
from headswap.bundle.check import check_bundle
from headswap.core.atomic_folder import atomic_folder
from headswap.core.errors import InputError, RunError, SettingError, listed
from headswap.core.files import read_json, sha256_of_file, write_json
from headswap.core.local_paths import shared_name, shown_address
from headswap.core.manifest import write_manifest, written_names
from headswap.core.outputs import check_folder
from headswap.core.ownership import OwnFiles
from headswap.core.settings import load_recipe, read_toml
from headswap.inference.evaluate import score_language_model
from headswap.inference.language_model import held_out_metrics, scored_bytes
from headswap.model.parameter_count import count_parameters
from headswap.objectives.objective import make_objective
from headswap.pretraining.config import PretrainRecipe
from headswap.pretraining.corpus import split_documents
from headswap.tokens.cache import cached_store
from headswap.training.config import MachineSettings
from headswap.training.device import Machine
from headswap.training.run_folder import RunFolder

REFERENCE_TEXT, REFERENCE = "reference.txt", "reference.json"
REFERENCE_TOLERANCE = 1e-3
"""Largest difference of the reference loss between machines, from rounding."""
MOST_LOST = 0.01
"""Largest change of the held-out loss by rounding to bf16."""
MOST_DIFFERENT = 0.05
"""Largest difference between the held-out loss in result.json (bf16 on a GPU) and that of the bundle (fp32)."""

NO_LOSS = "{run} has no held-out loss for the card. Pre-train with a larger --held-out-fraction."


@dataclass(frozen=True)
class Packed:
    """The packed base and its losses."""

    out: Path
    num_bytes: int
    loss: float
    loss_before_rounding: float
    reference: dict[str, Any]


def pack(
    run: Path,
    out: Path,
    *,
    about: Mapping[str, Any],
    sentences: Sequence[str],
    beside: Sequence[Path] = (),
    most_bytes: int | None = None,
) -> Packed:
    """Write `out/bundle` and `out/record` from a finished run; its corpus must still exist at the recipe's path.

    `about` is added to the card (it should contain `licence` and `limits`), `sentences` become the reference text, and
    the files of `beside` are copied into the record.
    """
    recipe, result = _checked(run)
    own_files = {"bundle": BUNDLE, "record": _record_files(out / "record")}
    for name, files in own_files.items():  # checks that `out` may be replaced, before any work
        check_folder(out / name, files, overwrite=True, reads=[run])
    bundle = Bundle.load(run)
    before = _held_out(run, bundle, recipe)
    if abs(before["loss"] - result["loss"]) > MOST_DIFFERENT:
        raise RunError(
            f"{run}: the held-out loss of its bundle is {before['loss']:.4f}, but result.json has "
            f"{result['loss']:.4f}. They are not from the same run. Restore the run folder."
        )
    rounded = replace(bundle, model=_rounded(bundle.model))
    after = _held_out(run, rounded, recipe)
    if abs(after["loss"] - before["loss"]) > MOST_LOST:
        raise RunError(
            f"Rounding to bf16 changes the held-out loss from {before['loss']:.4f} to {after['loss']:.4f}, by more "
            f"than {MOST_LOST}. This base cannot be distributed in bf16."
        )
    rounded = replace(rounded, card={**bundle.card, **_card(run, rounded, result, before, after), **about})
    with TemporaryDirectory() as name:  # nothing is replaced before all checks have passed
        bundle_folder, record = Path(name) / "bundle", Path(name) / "record"
        rounded.save(bundle_folder, dtype=torch.bfloat16)
        if unsound := [check.message for check in check_bundle(bundle_folder) if not check.is_sound]:
            raise RunError(f"The bundle packed from {run} is damaged: {' '.join(unsound)}")
        reference = _write_record(run, record, Bundle.load(bundle_folder), sentences, beside)
        num_bytes = sum(file.stat().st_size for part in (bundle_folder, record) for file in part.iterdir())
        if most_bytes is not None and num_bytes > most_bytes:
            raise RunError(f"The base has {num_bytes / 1e6:.1f} MB, but only {most_bytes / 1e6:.1f} MB are allowed.")
        for part in (bundle_folder, record):
            with atomic_folder(out / part.name, own_files[part.name]) as place:
                shutil.copytree(part, place, dirs_exist_ok=True, copy_function=shutil.copyfile)
    return Packed(out, num_bytes, after["loss"], before["loss"], reference)


def _record_files(folder: Path) -> OwnFiles:
    """The files that an earlier packing wrote into a record, by its manifest."""
    return OwnFiles(files=tuple(map(re.escape, written_names(folder))))


def reference_loss(bundle: Bundle, record: Path) -> dict[str, Any]:
    """The loss of a base on the sentences of a record, in fp32 on the CPU; up to rounding equal on every machine.

    `headswap evaluate box:NAME record/reference.txt --documents line` prints the same loss.
    """
    machine = Machine(MachineSettings(device="cpu", precision="fp32"))
    file = str(record / REFERENCE_TEXT)
    return score_language_model(
        bundle, file, text_column="text", documents="line", max_length=None, autocast=machine.scoring()
    )  # fmt: skip


def _checked(run: Path) -> tuple[PretrainRecipe, dict[str, Any]]:
    """The recipe and the result of a finished pre-training run whose bundle is undamaged."""
    if not (run / "recipe.toml").is_file():
        raise InputError(f"{run} is not a run folder: it has no recipe.toml. Give the folder of headswap pretrain.")
    verb = read_toml(run / "recipe.toml").get("verb")
    if verb != "pretrain":
        raise SettingError(f"{run} is a run of headswap {verb}. Only runs of headswap pretrain can be packed.")
    if not RunFolder(run).is_finished:
        raise InputError(f"{run} has not finished. Finish it with --resume first.")
    if unsound := [check.message for check in check_bundle(run) if not check.is_sound]:
        raise InputError(f"{run} is damaged: {' '.join(unsound)}")
    result = RunFolder(run).result
    if result["loss"] is None:
        raise InputError(NO_LOSS.format(run=run))
    return load_recipe(PretrainRecipe, run / "recipe.toml"), result


def _rounded(model: Any) -> Any:
    """A copy whose weights are rounded to bf16 but keep their dtype."""
    result = copy.deepcopy(model)
    with torch.no_grad():
        for tensor in result.state_dict().values():
            tensor.copy_(tensor.bfloat16().to(tensor.dtype))
    return result


def _held_out(run: Path, bundle: Bundle, recipe: PretrainRecipe) -> dict[str, float]:
    """Metrics on the held-out documents of the run, in fp32 on the CPU."""
    objective = make_objective(bundle.objective, bundle.tokenizer, bundle.masking)
    store = cached_store(recipe.corpus.corpus, recipe.corpus, bundle.tokenizer, side=objective.sides)
    if store.meta["arrays"]["ids"]["sha256"] != read_json(run / "data.json")["corpus"]:
        corpus = listed(map(shown_address, recipe.corpus.corpus))
        raise InputError(
            f"The corpus {corpus} changed since {run} read it, so the text that the run held out cannot be scored "
            "again. Restore the files."
        )
    _, documents = split_documents(store, recipe.training.held_out_fraction)
    length = recipe.training.max_length or bundle.max_length
    rows = objective.rows(store, documents, max_length=length, layout=recipe.training.layout)
    metrics = held_out_metrics(bundle.model, objective, rows, num_bytes=scored_bytes(rows, bundle.tokenizer))
    if not metrics:  # a run of an earlier version, which recorded a loss of 0
        raise InputError(NO_LOSS.format(run=run))
    return metrics


def _card(
    run: Path, bundle: Bundle, result: Mapping[str, Any], before: Mapping[str, float], after: Mapping[str, float]
) -> dict[str, Any]:
    environment, data = read_json(run / "environment.json"), read_json(run / "data.json")
    bits = {"held-out bits per byte": round(after["bits_per_byte"], 4)} if "bits_per_byte" in after else {}
    return {
        "parameters": count_parameters(bundle.model).total,
        "weights": "bf16 (computed in fp32 by default, in bf16 with --precision bf16)",
        "sha256 of the token ids": data["corpus"],
        "tokens read": result["tokens"],
        "epochs": round(result["epochs"], 2),
        "seconds": round(result["seconds"]),
        "device": result["device"],
        "torch": environment["versions"]["torch"],
        "held-out loss": round(after["loss"], 4),
        "held-out perplexity": round(after["perplexity"], 2),
        **bits,
        "held-out loss before rounding to bf16": round(before["loss"], 4),
    }


def _shared_recipe(recipe: PretrainRecipe) -> PretrainRecipe:
    """The recipe with the names of its files in place of their paths."""
    tokenizer = recipe.tokenizer.tokenizer
    named = tuple(shared_name(source) for source in recipe.corpus.corpus)
    recipe = recipe.changed(corpus=recipe.corpus.changed(corpus=named))
    if tokenizer is None:
        return recipe
    return recipe.changed(tokenizer=recipe.tokenizer.changed(tokenizer=shared_name(tokenizer)))


def _write_record(
    run: Path, out: Path, bundle: Bundle, sentences: Sequence[str], beside: Sequence[Path]
) -> dict[str, Any]:
    """Write the run's files, without sampled texts and the command line, and the reference."""
    if broken := [sentence for sentence in sentences if not sentence.strip() or "\n" in sentence]:
        raise InputError(f"{broken[0]!r} cannot be a reference sentence: give one non-empty line of text per sentence.")
    with atomic_folder(out, _record_files(out)) as folder:
        for file in (run / "result.json", run / "data.json", *beside):
            (folder / file.name).write_bytes(file.read_bytes())
        _shared_recipe(load_recipe(PretrainRecipe, run / "recipe.toml")).save(folder / "recipe.toml")
        environment = read_json(run / "environment.json")
        write_json(folder / "environment.json", {k: v for k, v in environment.items() if k != "command"})
        lines = [{k: v for k, v in line.items() if k != "sample"} for line in RunFolder(run).metrics()]
        (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        (folder / REFERENCE_TEXT).write_text("".join(f"{line}\n" for line in sentences), encoding="utf-8")
        found = reference_loss(bundle, folder)
        reference = {
            "text": REFERENCE_TEXT,
            "text_sha256": sha256_of_file(folder / REFERENCE_TEXT),
            "tolerance": REFERENCE_TOLERANCE,
            "torch": torch.__version__,
            **{name: value for name, value in found.items() if name in ("loss", "bits_per_byte", "num_tokens")},
        }
        write_json(folder / REFERENCE, reference)
        write_manifest(folder)
    return reference
