"""The starting point of pre-training: a new base of a preset's shape, or an existing base that is adapted."""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headswap.batches.config import MaskingSettings
from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError, SettingError
from headswap.model.swap import checksum, reshaped
from headswap.model.text_model import ModelShape, TextModel, build_model
from headswap.objectives.objective import PretrainingObjective, make_objective
from headswap.pretraining.config import AdaptRecipe, PretrainRecipe
from headswap.registry import OBJECTIVES
from headswap.tokens.cache import cached_store, cached_tokenizer
from headswap.tokens.config import check_untrained
from headswap.tokens.store import TokenStore, is_store
from headswap.tokens.tokenizer import Tokenizer

log = logging.getLogger("headswap")


@dataclass(frozen=True)
class StartingPoint:
    """The tokenised corpus, the objective, and the model before the first step."""

    tokenizer: Tokenizer
    store: TokenStore
    objective_name: str
    objective: PretrainingObjective
    masking: MaskingSettings
    model: TextModel
    preset: str
    source: str | None = None
    """The base that is adapted; None for a new base."""
    tokens_trained: int | None = 0
    """Tokens that it was trained on before; None where its card does not record it."""
    former_objective: str | None = None
    """The objective of the base that is adapted, if the adaptation has another one."""

    def checksums(self) -> dict[str, str]:
        """Checksums of the corpus, the tokenizer and the base that is adapted."""
        found = {
            "corpus": self.store.meta["arrays"]["ids"]["sha256"],
            "tokenizer": self.tokenizer.fingerprint,
            "boundaries of the documents": self.store.checksum(side=self.objective.sides),
        }
        if self.source is not None:
            tensors = "".join(checksum(tensor) for tensor in self.model.state_dict().values())
            found["base"] = hashlib.sha256(tensors.encode()).hexdigest()[:32]
        return found


def with_dropout(model: TextModel, dropout: float | None, *, seed: int) -> TextModel:
    """The same weights in a base with another dropout, where one is given."""
    if not dropout or dropout == model.shape.base.dropout:
        return model
    return build_model(model.shape.changed(base=model.shape.base.changed(dropout=dropout)), seed=seed)


def new_base(recipe: PretrainRecipe, sources: Sequence[str]) -> StartingPoint:
    """A base of a preset's shape for the vocabulary of the corpus."""
    name, masking = recipe.training.objective, recipe.masking
    kind = OBJECTIVES.load(name)
    # A saved recipe has the unit token for all objectives.
    neutral = {"mask_unit": "token"}
    given = [
        one for one in masking.not_default(MaskingSettings.model_fields) if getattr(masking, one) != neutral.get(one)
    ]
    if given and not kind.masks_tokens:
        raise SettingError(
            f"{', '.join(given)}: no effect with the {name} objective, which masks no tokens. Use --objective masked."
        )
    if "masked_share" in given and not (kind.masks_tokens and kind.predicts_next):
        raise SettingError(f"masked_share: no effect with the {name} objective. Use --objective causal+masked.")
    if kind.num_segments and recipe.training.layout == "documents":
        raise SettingError(
            f"--layout documents cannot be used with --objective {name}, whose rows are pairs of segments. Remove it."
        )
    masking, found = kind.masking_of(masking), _tokenizer(recipe, sources)
    tokenizer = found.with_mask_and_sep() if kind.masks_tokens else found
    objective = make_objective(name, tokenizer, masking)
    store = cached_store(sources, recipe.corpus, found, side=objective.sides)
    shape = recipe.model.shape(vocab_size=tokenizer.vocab_size, max_length=recipe.training.max_length)
    if shape.type_vocab_size < objective.num_segments:
        if recipe.model.type_vocab_size is not None:
            raise SettingError(
                f"type_vocab_size is {shape.type_vocab_size}, but --objective {name} needs {objective.num_segments} "
                "segment embeddings. Remove the setting."
            )
        shape = shape.changed(type_vocab_size=objective.num_segments)
        log.info("Added %d segment embeddings to the base, which --objective %s needs.", objective.num_segments, name)
    whole = ModelShape(base=shape, direction=objective.direction, head="lm", pair_head=objective.num_segments > 0)
    model = build_model(whole, seed=recipe.training.seed)
    return StartingPoint(tokenizer, store, name, objective, masking, model, recipe.model.preset)


def existing_base(recipe: AdaptRecipe, sources: Sequence[str]) -> StartingPoint:
    """A pre-trained base with its tokenizer, its head, and its objective or the one that is given."""
    base = recipe.model.base
    assert base is not None
    bundle = Bundle.load(base, allow_download=recipe.machine.allow_download)
    if bundle.model.shape.head != "lm":
        raise InputError(
            f"{base} was fine-tuned: it has no language modelling head, which pre-training needs. Give the base that "
            "it was fine-tuned from."
        )
    objective_name, known = bundle.objective, bundle.tokenizer
    if objective_name == "none":
        objective_name = "causal" if bundle.model.shape.direction == "causal" else "masked"
        log.warning(
            "%s has no language modelling head; a new one is trained, which shares its weights with the embedding.",
            base,
        )
    wanted, former = recipe.training.objective, None
    if wanted is not None and wanted != objective_name:
        if recipe.model.reference is not None:
            raise SettingError(
                "--reference shows how much the base forgets, but the objective is changed from "
                f"{objective_name} to {wanted}: losses of two objectives cannot be compared. Leave --reference out."
            )
        former = objective_name
        bundle, objective_name = _for_objective(bundle, wanted, seed=recipe.training.seed), wanted
    if OBJECTIVES.load(objective_name).masks_tokens and bundle.tokenizer.mask_id is None:
        raise InputError(f"The tokenizer of {base} has no mask token, which its objective {objective_name} needs.")
    masking = OBJECTIVES.load(objective_name).masking_of(bundle.masking)
    if masking.mlm_probability_start is not None:  # an adaptation continues from the last step of pre-training
        masking = masking.changed(mlm_probability_start=masking.mlm_probability)
    length = recipe.training.max_length
    if length is not None and length > bundle.max_length:
        raise SettingError(
            f"max_length is {length}, but the base reads at most {bundle.max_length} tokens. Use a smaller value."
        )
    objective = make_objective(objective_name, bundle.tokenizer, masking)
    store = cached_store(sources, recipe.corpus, known, side=objective.sides)
    preset = str(bundle.card.get("preset", "not recorded"))
    return StartingPoint(
        bundle.tokenizer, store, objective_name, objective, masking, bundle.model, preset, source=base,
        tokens_trained=bundle.tokens_trained, former_objective=former,
    )  # fmt: skip


def _for_objective(bundle: Bundle, name: str, *, seed: int) -> Bundle:
    """The base of a bundle for another objective: with its direction, its heads, and `<mask>` in the vocabulary."""
    kind, old, tokenizer = OBJECTIVES.load(name), bundle.model.shape, bundle.tokenizer
    if kind.num_segments > old.base.type_vocab_size:
        raise SettingError(
            f"--objective {name} needs {kind.num_segments} segment embeddings, and the base has "
            f"{old.base.type_vocab_size}. Use --objective masked, or pre-train a new base with {name}."
        )
    if kind.masks_tokens and (tokenizer.mask_id is None or (kind.num_segments and tokenizer.sep_id is None)):
        tokenizer = tokenizer.with_mask_and_sep()
    shape = old.changed(
        direction=kind.direction,
        pair_head=kind.num_segments > 0,
        base=old.base.changed(vocab_size=max(old.base.vocab_size, tokenizer.vocab_size)),
    )
    log.info("The base was pre-trained with the objective %s; from now on it is %s.", bundle.objective, name)
    model = reshaped(bundle.model, shape, seed=seed)
    return replace(bundle, model=model, tokenizer=tokenizer, masking=MaskingSettings(), objective=name)


def _tokenizer(recipe: PretrainRecipe, sources: Sequence[str]) -> Tokenizer:
    named = recipe.tokenizer.tokenizer
    if named is not None:
        check_untrained(recipe.tokenizer, f"--tokenizer {named} is given")
        return Tokenizer.load(named)
    if len(sources) == 1 and is_store(sources[0]):
        check_untrained(recipe.tokenizer, f"{sources[0]} is a token store with a tokenizer of its own")
        return TokenStore.open(Path(sources[0])).tokenizer()
    return cached_tokenizer(sources, recipe.corpus, recipe.tokenizer)
