"""The starting point of fine-tuning: random weights, or all weights of a base."""

import hashlib
import logging
from dataclasses import dataclass

from headswap.bundle.bundle import Bundle
from headswap.core.errors import SettingError
from headswap.data.records import Document
from headswap.defaults.finetuning import head_shape, pair_encoding
from headswap.finetuning.config import FinetuneRecipe, PairEncoding, StartSettings
from headswap.finetuning.head_inputs import reads_text_vector
from headswap.finetuning.splits import LabelledSplits
from headswap.model.parameter_count import num_parameters
from headswap.model.shape import Direction
from headswap.model.swap import Ledger, scratch_ledger, swap_head
from headswap.model.text_model import ModelShape, TextModel, build_model
from headswap.registry import HeadKind
from headswap.tasks.text_task import PAIR_HEAD
from headswap.tokens.config import check_untrained
from headswap.tokens.tokenizer import Tokenizer
from headswap.tokens.train_tokenizer import train_tokenizer

log = logging.getLogger("headswap")
SHAPE_SETTINGS = tuple(name for name in StartSettings.model_fields if name not in ("base", "dropout", "direction"))


@dataclass(frozen=True)
class StartingPoint:
    """The model before the first step, its tokenizer, and the ledger of its weights."""

    model: TextModel
    tokenizer: Tokenizer
    ledger: Ledger
    objective: str
    tokens_trained: int | None = 0
    """Tokens that the base was pre-trained on; None where that is not known."""
    pair_encoding: PairEncoding | None = None
    """How pairs of texts are read; None for single texts."""
    is_turned: bool = False
    """Whether the base is causal and is fine-tuned with bidirectional attention."""

    def checksums(self) -> dict[str, str]:
        """Checksums of the tokenizer and of the weights kept from the base."""
        carried = "".join(row.checksum for row in self.ledger.rows if row.status == "carried")
        base = {"base": hashlib.sha256(carried.encode()).hexdigest()[:32]} if carried else {}
        return {"tokenizer": self.tokenizer.fingerprint, **base}

    @classmethod
    def of(cls, recipe: FinetuneRecipe, splits: LabelledSplits) -> "StartingPoint":
        """The starting point that the recipe's `base` selects."""
        return cls._scratch(recipe, splits) if recipe.model.base == "scratch" else cls._from_base(recipe, splits)

    @classmethod
    def _scratch(cls, recipe: FinetuneRecipe, splits: LabelledSplits) -> "StartingPoint":
        if recipe.tokenizer.tokenizer is not None:
            check_untrained(recipe.tokenizer, f"--tokenizer {recipe.tokenizer.tokenizer} is given")
            tokenizer = Tokenizer.load(recipe.tokenizer.tokenizer)
        else:
            documents = (
                Document(text, example.source, example.line)
                for example in splits.train
                for text in (example.text, getattr(example, "text_pair", None))
                if text
            )
            tokenizer = train_tokenizer(documents, recipe.tokenizer)
        if splits.task.needs_sep(recipe.data):
            tokenizer = tokenizer.with_mask_and_sep()
        start = recipe.model
        assert start.preset is not None
        assert start.direction is not None
        length = recipe.training.max_length
        base = start.laid_over(start.preset, vocab_size=tokenizer.vocab_size, max_length=length)
        encoding = _pair_encoding(recipe, knows_pairs=False)
        shape = ModelShape(
            base=base,
            direction=start.direction,
            head=_head(splits, encoding),
            num_labels=len(splits.labels),
            classifier=head_shape(
                recipe,
                start.direction,
                num_classes=_num_classes(recipe, splits),
                tokens_per_parameter=0,
                pair_encoding=encoding,
            ),
        )
        model = build_model(shape, seed=recipe.training.seed)
        return cls(model, tokenizer, scratch_ledger(model), "none", pair_encoding=encoding)

    @classmethod
    def _from_base(cls, recipe: FinetuneRecipe, splits: LabelledSplits) -> "StartingPoint":
        assert recipe.model.base is not None
        given = [name for name in SHAPE_SETTINGS if getattr(recipe.model, name) is not None]
        bundle = Bundle.load(recipe.model.base, allow_download=recipe.machine.allow_download)
        if given:
            raise SettingError(f"{', '.join(given)}: the base has its own. Remove the setting, or use --base scratch.")
        if recipe.tokenizer.tokenizer is not None:
            wanted = Tokenizer.load(recipe.tokenizer.tokenizer).fingerprint
            if wanted != bundle.tokenizer.fingerprint:
                raise SettingError(
                    f"{recipe.tokenizer.tokenizer} (fingerprint {wanted}) is not the tokenizer of {recipe.model.base} "
                    f"(fingerprint {bundle.tokenizer.fingerprint}). Remove --tokenizer: a base has its own tokenizer."
                )
        check_untrained(recipe.tokenizer, f"the base {recipe.model.base} has its own tokenizer")
        if bundle.model.shape.head != "lm":
            log.warning(
                "%s is %s: it was already trained on labels, so scores on texts of its training set are too high.",
                recipe.model.base, bundle.what,
            )  # fmt: skip
        length = recipe.training.max_length
        if length is not None and length > bundle.max_length:
            raise SettingError(
                f"max_length is {length}, but the base reads at most {bundle.max_length} tokens. Use a smaller value."
            )
        direction = _direction(recipe.model, bundle, per_token=splits.task.is_per_token)
        base, tokens = bundle.model.shape.base, bundle.tokens_trained
        if recipe.model.dropout is not None:
            base = base.changed(dropout=recipe.model.dropout)
        encoding = _pair_encoding(recipe, knows_pairs=knows_pairs(bundle))
        shape = ModelShape(
            base=base,
            direction=direction,
            head=_head(splits, encoding),
            num_labels=len(splits.labels),
            classifier=head_shape(
                recipe,
                direction,
                num_classes=_num_classes(recipe, splits),
                tokens_per_parameter=None if tokens is None else tokens / num_parameters(bundle.model.base),
                pair_encoding=encoding,
            ),
            lora=recipe.adaptation.lora(),
        )
        model, ledger = swap_head(bundle.model, shape, seed=recipe.training.seed, source=str(recipe.model.base))
        is_turned = direction != bundle.model.shape.direction and not bundle.reads_both_ways
        return cls(model, bundle.tokenizer, ledger, bundle.objective, tokens, encoding, is_turned)


def knows_pairs(bundle: Bundle) -> bool:
    """Whether a base can be expected to read two texts in one sequence: it was trained on such pairs, or it is a public
    checkpoint, which was trained on far more text than a base of one corpus."""
    shape = bundle.model.shape
    if shape.head != "lm":
        return bundle.task.reads_pairs and shape.head != PAIR_HEAD
    return bool(shape.pair_head) or bundle.tokens_trained is None


def _pair_encoding(recipe: FinetuneRecipe, *, knows_pairs: bool) -> PairEncoding | None:
    """How pairs of texts are read; None for single texts."""
    if recipe.data.text_pair_column is None:
        return None
    return pair_encoding(recipe.head, knows_pairs=knows_pairs)


def _head(splits: LabelledSplits, encoding: PairEncoding | None) -> HeadKind:
    """The head of the task; for pairs of texts that are read separately one that compares two vectors."""
    return PAIR_HEAD if encoding == "separate" else splits.task.head


def _num_classes(recipe: FinetuneRecipe, splits: LabelledSplits) -> int | None:
    """The number of classes whose scores are computed from the vector of a text; None for other heads."""
    return len(splits.labels) if reads_text_vector(splits.task, recipe.head.head_hidden) else None


def _direction(start: StartSettings, bundle: Bundle, *, per_token: bool) -> Direction:
    """The attention direction of a fine-tuned base: the given one; else bidirectional if the task predicts every token,
    because a word's tag depends on what follows (docs/log.md has the measurement); else its own.

    A base that was pre-trained with bidirectional attention alone is not made causal: it has never read a text without
    the part after a token.
    """
    own, wanted = bundle.model.shape.direction, start.direction
    if wanted == "causal" and own != "causal" and not bundle.reads_both_ways:
        raise SettingError(
            f"direction is {wanted}, but the attention of {start.base} is {own}. Remove the setting, or give a base "
            "that was pre-trained in both directions (--objective causal+masked)."
        )
    return wanted or ("bidirectional" if per_token else own)
