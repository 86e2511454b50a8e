"""`headswap export --to sentence-transformers`: the base and its pooling, one vector per text.

The format of the folder is that of all versions since 2.0: a stock checkpoint without a head, `modules.json`, and the
settings of pooling. The library is not imported.
"""

from pathlib import Path

from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError
from headswap.core.files import write_json
from headswap.interop.config import ExportSettings
from headswap.interop.export_card import python_block, write_card
from headswap.interop.hf_out import stock_family, write_checkpoint
from headswap.interop.target import Exported, ExportTarget
from headswap.model.shape import Pooling

MODES = {
    "first": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "weighted-mean": "pooling_mode_weightedmean_tokens",
    "last": "pooling_mode_lasttoken",
}
"""Names of the kinds of pooling in sentence-transformers."""
TYPE = "sentence_transformers.models."


class SentenceTransformers(ExportTarget):
    """A model that `SentenceTransformer` loads."""

    files = (
        r"config\.json", r"model\.safetensors", r"tokenizer\.json", r"tokenizer_config\.json", r"modules\.json",
        r"README\.md", r"sentence_bert_config\.json", r"1_Pooling/config\.json", r"2_Normalize/config\.json",
    )  # fmt: skip
    uses = ("weights", "pooling", "normalize")

    def write(self, bundle: Bundle, folder: Path, settings: ExportSettings) -> Exported:
        """Write the checkpoint and the modules."""
        pooling = settings.pooling or default_pooling(bundle)
        if pooling not in MODES:
            raise InputError(
                f"pooling is {pooling}; sentence-transformers concatenates the maximum before the mean. Use --pooling "
                f"with one of {', '.join(MODES)}."
            )
        family = stock_family(bundle.model.shape, with_head=False)
        write_checkpoint(bundle, family, folder, settings, with_head=False)
        names = ["Transformer", "Pooling", *(["Normalize"] if settings.normalize else [])]
        places = ["" if number == 0 else f"{number}_{name}" for number, name in enumerate(names)]
        modules = [
            {"idx": number, "name": str(number), "path": place, "type": TYPE + name}
            for number, (name, place) in enumerate(zip(names, places, strict=True))
        ]
        write_json(folder / "modules.json", modules)
        write_json(folder / "sentence_bert_config.json", {"max_seq_length": bundle.max_length, "do_lower_case": False})
        (folder / "1_Pooling").mkdir()
        modes = {mode: name == pooling for name, mode in MODES.items()} | {"pooling_mode_mean_sqrt_len_tokens": False}
        width = {"word_embedding_dimension": bundle.model.shape.base.hidden_size}
        write_json(folder / "1_Pooling" / "config.json", {**width, **modes})
        if settings.normalize:
            (folder / "2_Normalize").mkdir()
            write_json(folder / "2_Normalize" / "config.json", {})
        write_card(
            bundle, folder, library="sentence-transformers", pipeline_tag="sentence-similarity", with_head=False,
            tags=("sentence-transformers", "feature-extraction"),
            use=python_block(
                "import sentence_transformers", "", 'model = sentence_transformers.SentenceTransformer(".")',
                'print(model.encode(["your text"]))',
            ),
        )  # fmt: skip
        return Exported(
            f"a {family.name} checkpoint with {pooling} pooling. Load it with: SentenceTransformer(...)",
            {"model_type": family.model_types[0], "pooling": pooling, "normalize": settings.normalize},
        )


def default_pooling(bundle: Bundle) -> Pooling:
    """The pooling of a classifier, or the one that fits the attention direction."""
    shape = bundle.model.shape
    if shape.head in ("classify", "compare"):
        return shape.classifier.pooling
    return "weighted-mean" if shape.direction == "causal" else "mean"
