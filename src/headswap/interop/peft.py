"""`headswap export --to peft`: LoRA adapters and head in the format of PEFT, and the base that they belong to.

`adapter_model.safetensors` has the adapters, and the head under `modules_to_save`; the folder `base` has the stock
checkpoint without a head. Where a stock class has separate query, key and value matrices, our adapter of the joint
matrix becomes three that share their first factor. The library is not imported.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError
from headswap.core.files import read_json, write_json
from headswap.interop.config import ExportSettings
from headswap.interop.export_card import python_block, warn_of_long_texts, write_card
from headswap.interop.families.family import Family
from headswap.interop.hf_out import auto_class, head_entries, stock_family, write_checkpoint
from headswap.interop.stock_head import scores_folded_in
from headswap.interop.target import Exported, ExportTarget
from headswap.interop.tokenizer_files import write_tokenizer
from headswap.model.lora import is_adapter
from headswap.model.text_model import TextModel, build_empty

TASKS = {"classify": "SEQ_CLS", "tag": "TOKEN_CLS", "span": "QUESTION_ANS"}
MODEL = "base_model.model."
"""What names of tensors begin with in PEFT."""


class Peft(ExportTarget):
    """Adapters that `PeftModel` loads onto the exported base."""

    files = (
        r"README\.md", r"adapter_config\.json", r"adapter_model\.safetensors", r"tokenizer(_config)?\.json",
        r"base/(config|tokenizer|tokenizer_config)\.json", r"base/model\.safetensors",
    )  # fmt: skip
    uses = ("weights",)

    def write(self, bundle: Bundle, folder: Path, settings: ExportSettings) -> Exported:
        """Write the adapters, the head and the base."""
        shape = bundle.model.shape
        if shape.lora is None:
            raise InputError(
                "The model has no LoRA adapters. Fine-tune with --trainable lora, or export the whole model: --to hf."
            )
        plain = replace(bundle, model=without_adapters(bundle.model))
        family = stock_family(plain.model.shape)
        warn_of_long_texts(bundle)
        (folder / "base").mkdir()
        write_checkpoint(plain, family, folder / "base", settings, with_head=False)
        config = folder / "base" / "config.json"
        write_json(config, read_json(config) | head_entries(bundle))
        adapters = dict(adapter_tensors(bundle, family))
        head = head_tensors(plain, family)
        tensors = {f"{MODEL}{name}": tensor.contiguous() for name, tensor in (adapters | head).items()}
        save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
        write_tokenizer(bundle, folder)
        write_json(
            folder / "adapter_config.json",
            {
                "peft_type": "LORA",
                "task_type": TASKS[shape.head],
                "base_model_name_or_path": "base",
                "r": shape.lora.rank,
                "lora_alpha": shape.lora.alpha,
                "lora_dropout": 0.0,
                "bias": "none",
                "fan_in_fan_out": any(entry.transposed for entry in family.base_entries(shape.base)),
                "target_modules": sorted({name.rpartition(".lora_")[0] for name in adapters}),
                "modules_to_save": sorted({name.rpartition(".")[0] for name in head}),
                "inference_mode": True,
            },
        )
        kind = auto_class(shape)
        write_card(
            bundle, folder, library="peft", tags=("lora",),
            use=python_block(
                "import peft", "import transformers", "", f'base = transformers.{kind}.from_pretrained("base")',
                'model = peft.PeftModel.from_pretrained(base, ".")',
            ),
        )  # fmt: skip
        return Exported(
            f"LoRA adapters of rank {shape.lora.rank} and the head. Load {kind} from its folder base, "
            "then PeftModel.from_pretrained(model, ...)",
            {"model_type": family.model_types[0], "rank": shape.lora.rank, "num_adapters": len(adapters) // 2},
        )


def without_adapters(model: TextModel) -> TextModel:
    """The model with the weights of its base as they were before the adapters."""
    plain = build_empty(model.shape.changed(lora=None))
    state = {name: tensor for name, tensor in model.state_dict().items() if not is_adapter(name)}
    plain.load_state_dict(state, assign=True)
    return plain.eval()


def adapter_tensors(bundle: Bundle, family: Family) -> Iterator[tuple[str, Tensor]]:
    """The factors of every adapter under the names of PEFT; an adapter of a joint matrix becomes several."""
    state = {name: tensor.detach().cpu() for name, tensor in bundle.model.base.state_dict().items()}
    shape = bundle.model.shape
    prefix = family.prefixes.get(shape.head, family.prefix)
    for entry in family.base_entries(shape.base):
        module = entry.ours.removesuffix(".weight")
        if entry.ours.endswith(".weight") and f"{module}.lora_down" in state:
            down, up = state[f"{module}.lora_down"], state[f"{module}.lora_up"]
            parts = up.split(list(entry.sizes)) if entry.sizes else up.chunk(len(entry.theirs))
            for name, part in zip(entry.theirs, parts, strict=True):
                own = prefix + name.removeprefix(family.prefix).removesuffix(".weight")
                yield f"{own}.lora_A.weight", down.clone()
                yield f"{own}.lora_B.weight", part.clone()


def head_tensors(bundle: Bundle, family: Family) -> dict[str, Tensor]:
    """The tensors of the head under the names of the stock class."""
    heads = scores_folded_in(bundle)
    found: dict[str, Tensor] = {}
    for entry in family.head_entries(bundle.model.shape):
        found |= entry.write(heads[entry.ours].cpu())
    return found
