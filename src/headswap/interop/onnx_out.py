"""`headswap export --to onnx`: a model for onnxruntime, which needs neither torch nor headswap.

`model.onnx` reads padded `input_ids` and `attention_mask` (and `token_type_ids`, if the base has segments) of any batch
size and length, and returns `logits`. A temperature and the scale of a regression are computed into the last layer.
`tokenizer.json` adds the special tokens; `config.json` has the labels and the length limit.
"""

import copy
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from headswap.bundle.bundle import Bundle
from headswap.bundle.card_data import with_figures
from headswap.core.errors import MissingExtraError, RunError, SettingError
from headswap.core.files import write_json
from headswap.core.local_paths import shared_name
from headswap.interop.config import ExportSettings
from headswap.interop.export_card import warn_of_long_texts, write_card
from headswap.interop.onnx_score import (
    examples_of_test,
    largest_difference,
    metric_of,
    metrics_with,
    rows_of_folder,
)
from headswap.interop.padded_model import PaddedModel
from headswap.interop.stock_head import scores_folded_in
from headswap.interop.target import Exported, ExportTarget
from headswap.interop.tokenizer_files import input_names, write_tokenizer
from headswap.model.heads import TaskHead
from headswap.model.text_model import TextModel, merged
from headswap.tasks.choose import task_of

MODEL = "model.onnx"
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""In the order of the arguments of `PaddedModel`: the exporter names inputs by their position."""
TOLERANCE = 1e-4
OPSET = 20


class Onnx(ExportTarget):
    """A graph with its weights, the tokenizer, and the labels."""

    files = (r"model\.onnx", r"config\.json", r"tokenizer\.json", r"tokenizer_config\.json", r"README\.md")
    uses = ("quantize", "test", "max_drop")

    def write(self, bundle: Bundle, folder: Path, settings: ExportSettings) -> Exported:
        """Write the graph, compare its outputs with those of the model, and score the test set with both."""
        _check(bundle, settings)
        warn_of_long_texts(bundle)
        ids = write_tokenizer(bundle, folder)
        model = exported_model(bundle)
        names = [name for name in INPUTS if name in input_names(bundle)]
        export_graph(model, folder / MODEL, names)
        gap = largest_difference(model, folder / MODEL, names)
        if not gap <= TOLERANCE:
            raise RunError(f"The exported graph differs from the model by {gap:.3g}. Please report this.")
        facts: dict[str, Any] = {"largest_difference": gap, "inputs": names, "quantize": settings.quantize}
        if settings.quantize is not None:
            quantize(folder / MODEL)
        if settings.test is not None:
            bundle, scores = _scores(bundle, model, folder, settings, names)
            facts |= scores
        write_json(folder / "config.json", _config(bundle) | ids)
        use = f"`{MODEL}` reads `{'`, `'.join(names)}` and returns `logits`; `config.json` has the labels."
        if model.sequences_per_target == 2:
            use += " Rows 0 and 1 of a batch are the two texts of the first pair, rows 2 and 3 those of the second."
        measured = "on the exported model" if settings.test is not None else "before the export"
        write_card(bundle, folder, library="onnx", use=use, measured=measured)
        size = (folder / MODEL).stat().st_size / 1e6
        scored = ""
        if "ours" in facts:
            scored = f"; {facts['metric']} on test {facts['exported']:.4f}, before {facts['ours']:.4f}"
        return Exported(f"{MODEL} ({size:.1f} MB){scored}. Load it with onnxruntime (docs/onnx.md).", facts)


def _check(bundle: Bundle, settings: ExportSettings) -> None:
    """Refuse what cannot work before any work: packages and settings."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        try:
            __import__(package)
        except ModuleNotFoundError:
            raise MissingExtraError("An export to ONNX", extra="onnx", package=package) from None
    if settings.quantize is not None and settings.test is None:
        raise SettingError("quantize rounds the weights, so its effect must be measured. Pass --test FILE.")
    if settings.test is not None and bundle.model.shape.head == "lm":
        raise SettingError("test needs a fine-tuned model with labels, and this is a language model. Leave it out.")


def exported_model(bundle: Bundle) -> TextModel:
    """The model on the CPU, without adapters, with temperature and scale of the targets in its last layer."""
    model = copy.deepcopy(merged(bundle.model) if bundle.model.shape.lora is not None else bundle.model).cpu().eval()
    model.head.load_state_dict({name: tensor.cpu() for name, tensor in scores_folded_in(bundle).items()})
    if isinstance(model.head, TaskHead) and model.head.cosine_scale is not None:
        model.head.cosine_scale /= bundle.task.temperature
    return model.requires_grad_(False)


def export_graph(model: TextModel, file: Path, names: list[str]) -> None:
    """Write the graph with dynamic batch and length."""
    per_target = model.sequences_per_target
    ids = torch.zeros(2 * per_target, 3, dtype=torch.int64)
    # One tensor per input: the exporter would make one input of a tensor that is given twice.
    given = {name: torch.ones_like(ids) if name == "attention_mask" else ids.clone() for name in names}
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=model.shape.base.max_position_embeddings)
    batch = batch if per_target == 1 else per_target * batch
    padded = PaddedModel(model)
    padded(**given)  # fills the caches of position tables with real tensors
    with _quiet():
        torch.onnx.export(
            padded, (), str(file), kwargs=given, dynamo=True, external_data=False, opset_version=OPSET,
            input_names=names, output_names=["logits"], verbose=False,
            dynamic_shapes={name: {0: batch, 1: length} for name in names},
        )  # fmt: skip


def quantize(file: Path) -> None:
    """Round the weights of matrix products to 8-bit integers, in place; activations are rounded at run time."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = onnx.load(str(file))
    del graph.graph.value_info[:]  # the shapes of intermediate results, which are not those after quantization
    onnx.save(graph, str(file))
    rounded = file.with_suffix(".int8")
    with _quiet():
        quantize_dynamic(str(file), str(rounded), weight_type=QuantType.QInt8)
    rounded.replace(file)


def _scores(
    bundle: Bundle, model: TextModel, folder: Path, settings: ExportSettings, names: list[str]
) -> tuple[Bundle, dict[str, Any]]:
    """The metric of model and graph on the test set, and the bundle with the figures of the graph.

    The model reads long texts as it was fine-tuned, and the graph gets them as the exported tokenizer cuts them. A
    larger drop than allowed is an error.
    """
    examples = examples_of_test(bundle, str(settings.test))
    metric = metric_of(bundle)
    ours = metrics_with(bundle, task_of(bundle).encode(examples, bundle), model=model)[metric]
    figures = metrics_with(bundle, rows_of_folder(bundle, examples), file=folder / MODEL, names=names)
    exported = figures[metric]
    drop = 100 * (ours - exported)
    if drop > settings.max_drop:
        raise RunError(
            f"The exported model is worse: {metric} on {settings.test} falls by {drop:.2f} points, from {ours:.4f} to "
            f"{exported:.4f}; at most {settings.max_drop:g} are allowed (--max-drop). Nothing was written."
        )
    scored = with_figures(bundle, figures, data=shared_name(str(settings.test)), examples=len(examples))
    return scored, {"metric": metric, "ours": ours, "exported": exported, "drop_in_points": drop}


def _config(bundle: Bundle) -> dict[str, Any]:
    """What a program needs to use the outputs."""
    state = bundle.task
    return {
        "task": state.task if bundle.model.shape.head != "lm" else "lm",
        "labels": list(bundle.labels),
        "max_length": state.max_length or bundle.max_length,
        "long": state.long,
        "doc_stride": state.doc_stride,
        "thresholds": list(state.thresholds),
        **({"pair_encoding": "separate"} if bundle.model.sequences_per_target == 2 else {}),
    }


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporters log and warn about themselves."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
