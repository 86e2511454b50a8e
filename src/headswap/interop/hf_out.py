"""`headswap export --to hf`: a bundle as a checkpoint of a stock class of transformers.

A bundle is written only if a stock class computes the same function; otherwise the message names the settings that
prevent it. The tensor maps are those of the families; this module does not import transformers.
"""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from headswap.bundle.bundle import Bundle
from headswap.bundle.config_json import label_entries
from headswap.core.errors import InputError, counted
from headswap.core.files import write_json
from headswap.interop.config import ExportSettings
from headswap.interop.export_card import use_with_transformers, warn_of_long_texts, write_card
from headswap.interop.families.choose import FAMILIES
from headswap.interop.families.family import CheckpointConfig, Family
from headswap.interop.hf_in import NO_OBJECTIVE
from headswap.interop.stock_head import scores_folded_in
from headswap.interop.target import Exported, ExportTarget
from headswap.interop.tokenizer_files import write_tokenizer
from headswap.model.text_model import ModelShape, merged

CONFIG, WEIGHTS = "config.json", "model.safetensors"
CLASSES = {
    "classify": "AutoModelForSequenceClassification",
    "tag": "AutoModelForTokenClassification",
    "span": "AutoModelForQuestionAnswering",
}


class HuggingFace(ExportTarget):
    """A checkpoint that AutoModel classes load without further code."""

    files = (
        r"config\.json", r"generation_config\.json", r"model\.safetensors", r"tokenizer\.json",
        r"tokenizer_config\.json", r"README\.md",
    )  # fmt: skip
    uses = ("weights",)

    def write(self, bundle: Bundle, folder: Path, settings: ExportSettings) -> Exported:
        """Write config, weights and tokenizer."""
        if bundle.model.shape.lora is not None:
            where = shlex.quote(str(bundle.path or "BUNDLE"))
            raise InputError(
                f"The model has LoRA adapters, which a stock class does not have. Merge them first: headswap merge "
                f"{where} --out merged. Or export the adapters: --to peft."
            )
        if bundle.reads_both_ways:
            raise InputError(
                "The base generates and fills: it predicts a masked token at the position before it, which no stock "
                "class of transformers does. Fine-tune it and export the result, or export its vectors with --to "
                "sentence-transformers."
            )
        with_head = has_head(bundle)
        family = stock_family(bundle.model.shape, with_head=with_head)
        warn_of_long_texts(bundle)
        write_checkpoint(bundle, family, folder, settings, with_head=with_head)
        kind = auto_class(bundle.model.shape) if with_head else "AutoModel"
        task = bundle.uses[0].pipeline_tag if with_head else "feature-extraction"
        use = use_with_transformers(task, kind)
        write_card(bundle, folder, library="transformers", use=use, pipeline_tag=task, with_head=with_head)
        return Exported(
            f"a {family.name} checkpoint. Load it with transformers: {kind}.from_pretrained(...)",
            {"model_type": family.model_types[0], "class": kind},
        )


def has_head(bundle: Bundle) -> bool:
    """Whether a model has a head; a public checkpoint without one is written without one."""
    return bundle.model.shape.head != "lm" or bundle.objective != NO_OBJECTIVE


def auto_class(shape: ModelShape) -> str:
    """The AutoModel class that loads a model; the one without a head for a head that no stock class has."""
    if shape.head == "lm":
        return "AutoModelForCausalLM" if shape.direction == "causal" else "AutoModelForMaskedLM"
    return CLASSES.get(shape.head, "AutoModel")


def write_checkpoint(
    bundle: Bundle, family: Family, folder: Path, settings: ExportSettings, *, with_head: bool = True
) -> None:
    """Write a bundle as a checkpoint of a family; without its head, of the family's class without a head."""
    shape = bundle.model.shape
    ids = write_tokenizer(bundle, folder)
    config: dict[str, Any] = {
        "model_type": family.model_types[0],
        "architectures": [family.stock_class(shape.head if with_head else "none")],
        "vocab_size": shape.base.vocab_size,
        "tie_word_embeddings": shape.base.tied_head,
        "dtype": settings.weights,
        **family.config_entries(shape),
        **ids,
    }
    if with_head:
        config |= head_entries(bundle)
    write_json(folder / CONFIG, config)
    if with_head and shape.head == "lm" and shape.direction == "causal":
        # As headswap generate: these tokens are never generated.
        tokenizer = bundle.tokenizer
        never = {tokenizer.sos_id, tokenizer.pad_id, tokenizer.mask_id, tokenizer.sep_id} - {tokenizer.eos_id, None}
        write_json(folder / "generation_config.json", {**ids, "suppress_tokens": sorted(never)})
    tensors = their_tensors(bundle, family, with_head=with_head)
    dtype = getattr(torch, settings.weights)
    rounded = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    if broken := [name for name, tensor in rounded.items() if not tensor.isfinite().all()]:
        raise InputError(f"{broken[0]} has values beyond the range of {settings.weights}. Use --weights float32.")
    save_file(rounded, folder / WEIGHTS, metadata={"format": "pt"})


def head_entries(bundle: Bundle) -> dict[str, Any]:
    """The entries of config.json by which scores of a head become answers; transformers does not use thresholds."""
    if bundle.model.shape.head not in ("classify", "tag"):
        return {}
    problem = {"problem_type": bundle.problem_type} if bundle.problem_type else {}
    thresholds = {"thresholds": list(bundle.task.thresholds)} if bundle.task.thresholds else {}
    return {**label_entries(bundle.labels), **problem, **thresholds}


def their_tensors(bundle: Bundle, family: Family, *, with_head: bool = True) -> dict[str, Tensor]:
    """The tensors of a bundle under the names and in the format of a family; each of ours must be used."""
    model = merged(bundle.model) if bundle.model.shape.lora is not None else bundle.model
    ours = {name: tensor.detach().cpu() for name, tensor in model.base.state_dict().items()}
    found = {name: torch.zeros(size) for name, size in family.missing_tensors(model.shape.base).items()}
    for entry in family.base_entries(model.shape.base):
        found |= entry.write(ours.pop(entry.ours))
    assert not ours, f"{family.name} has no place for {sorted(ours)}"
    if not with_head:
        return {name.removeprefix(family.prefix): tensor for name, tensor in found.items()}
    prefix = family.prefixes.get(model.shape.head, family.prefix)
    found = {prefix + name.removeprefix(family.prefix): tensor for name, tensor in found.items()}
    heads = scores_folded_in(bundle)
    for entry in family.head_entries(model.shape):
        found |= entry.write(heads.pop(entry.ours).cpu())
    assert not heads, f"{family.name} has no place for {sorted(heads)}"
    return found


def stock_family(shape: ModelShape, *, with_head: bool = True) -> Family:
    """The family whose stock class computes what a model of this shape computes; else an `InputError`."""
    if with_head and shape.head == "compare":
        raise InputError(
            "The model compares the vectors of two texts, which no stock class of transformers does. Export to ONNX "
            "(--to onnx), export its vectors (--to sentence-transformers), or fine-tune with --pair-encoding joined."
        )
    found = {
        family.name: list(obstacles(family, shape, with_head=with_head))
        for family in FAMILIES
        if family.stock_class(shape.head if with_head else "none")
    }
    for family in FAMILIES:
        if found.get(family.name) == []:
            return family
    nearest = min(found, key=lambda name: (len(found[name]), name))
    problems = "; ".join(found[nearest])
    raise InputError(
        f"No stock class of transformers computes what this model computes. The nearest, {nearest}, is prevented by "
        f"{counted(len(found[nearest]), 'setting')}: {problems}. Train with other settings, or load the bundle itself "
        f"with {auto_class(shape)} after: import headswap.interop.hf (docs/interop.md)."
    )


def obstacles(family: Family, shape: ModelShape, *, with_head: bool = True) -> Iterator[str]:
    """Which settings of a model a family cannot express, including those of the head unless it is left out."""
    if not with_head:
        yield from family.obstacles(shape.changed(head="tag", num_labels=1))  # a head that no family restricts
        return
    if shape.pair_head:
        yield "it has a head for sentence pairs (use --objective masked)"
    yield from family.obstacles(shape)
    if shape.head == "lm":
        return
    wanted, head = family.stock_head(CheckpointConfig({}, family.name), shape.head), shape.classifier
    if shape.head == "classify" and head.pooling != wanted.pooling:
        yield f"pooling is {head.pooling}; {family.name} pools with --pooling {wanted.pooling}"
    if head.head_norm != wanted.head_norm:
        yield f"head_norm is {head.head_norm}; {family.name} has --head-norm {wanted.head_norm}"
    if head.head_hidden != wanted.head_hidden:
        yield f"head_hidden is {head.head_hidden}; {family.name} has --head-hidden {wanted.head_hidden}"
    if head.head_similarity != wanted.head_similarity:
        yield f"head_similarity is {head.head_similarity}; {family.name} has --head-similarity {wanted.head_similarity}"
    if head.head_bias != wanted.head_bias:
        has, needed = ("has a bias", "--no-head-bias") if head.head_bias else ("has no bias", "--head-bias")
        yield f"its class layer {has}; {family.name} needs {needed}"
