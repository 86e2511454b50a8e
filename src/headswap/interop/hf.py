"""`import headswap.interop.hf` registers headswap's own shapes with transformers, without `trust_remote_code`.

A bundle is a folder in Hugging Face's conventions. After this import, `AutoModelForSequenceClassification`,
`ForTokenClassification`, `ForQuestionAnswering`, `ForCausalLM`, `ForMaskedLM` and `AutoTokenizer` load it directly,
also in shapes for which transformers has no class, such as the lab's. The model computes without padding, as headswap
does; `generate` reads the whole text at every step.
"""

import json
from pathlib import Path
from typing import Any, ClassVar

import tokenizers
import torch
import transformers
from torch import Tensor
from transformers.modeling_outputs import (
    BaseModelOutput,
    CausalLMOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)

from headswap.batches.batch import Batch
from headswap.bundle.config_json import shape_of, task_state_of
from headswap.bundle.uses import uses_of
from headswap.core.errors import InputError
from headswap.core.files import read_json
from headswap.model.text_model import TextModel
from headswap.tokens.tokenizer import Tokenizer


class HeadswapConfig(transformers.PretrainedConfig):
    """The config.json of a bundle."""

    model_type = "headswap"


class HeadswapModel(transformers.PreTrainedModel):
    """The base of a bundle; its subclasses also use the head."""

    config_class = HeadswapConfig
    base_model_prefix = "base"
    _tied_weights_keys: ClassVar[Any] = None

    def __init__(self, config: HeadswapConfig) -> None:
        super().__init__(config)
        made = TextModel(shape_of(_json_values(config), Path("config.json")))
        self.base, self.head, self.pair_head = made.base, made.head, made.pair_head
        object.__setattr__(self, "text_model", made)  # it shares the modules, and must not be registered a second time
        self.post_init()

    def _init_weights(self, module: torch.nn.Module) -> None:
        """A bundle has all weights."""

    def hidden_and_batch(
        self, input_ids: Tensor, attention_mask: Tensor | None, token_type_ids: Tensor | None
    ) -> tuple[Tensor, Batch, Tensor]:
        """The base's vectors of the tokens that are not padding, their batch, and where they are in the input."""
        is_real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        is_real = is_real.bool()
        lengths_B = is_real.sum(1)
        nothing = torch.zeros(0, dtype=torch.long, device=input_ids.device)
        segments = token_type_ids[is_real] if token_type_ids is not None else None
        has_segments = self.text_model.shape.base.type_vocab_size > 0
        batch = Batch(
            input_ids[is_real], tuple(lengths_B.tolist()), lengths_B, nothing, nothing,
            segments_N=segments if has_segments else None,
        )  # fmt: skip
        return self.text_model.hidden(batch), batch, is_real

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        **others: Any,
    ) -> Any:
        """The output of the base, or of the head of a subclass."""
        return self.output(*self.hidden_and_batch(input_ids, attention_mask, token_type_ids))

    def output(self, hidden_ND: Tensor, batch: Batch, is_real: Tensor) -> Any:
        """The vectors after the last layer."""
        return BaseModelOutput(last_hidden_state=padded(hidden_ND, is_real))


class HeadswapForSequenceClassification(HeadswapModel):
    """A classifier or a regression."""

    def __init__(self, config: HeadswapConfig) -> None:
        super().__init__(config)
        if self.text_model.sequences_per_target == 2:
            raise InputError(
                "This model compares the vectors of two texts, which pipelines of transformers do not give it. Use "
                "headswap.load(...).predict, AutoModel for the vectors, or a model with --pair-encoding joined."
            )

    def output(self, hidden_ND: Tensor, batch: Batch, is_real: Tensor) -> Any:
        """One row of scores per sequence."""
        return SequenceClassifierOutput(logits=self.head(hidden_ND, batch))


class HeadswapForTokenClassification(HeadswapModel):
    """A tagger."""

    def output(self, hidden_ND: Tensor, batch: Batch, is_real: Tensor) -> Any:
        """One row of scores per token."""
        return TokenClassifierOutput(logits=padded(self.head(hidden_ND, batch), is_real))


class HeadswapForQuestionAnswering(HeadswapModel):
    """A question answerer."""

    def output(self, hidden_ND: Tensor, batch: Batch, is_real: Tensor) -> Any:
        """Log-probabilities of start and end."""
        scores = padded(self.head(hidden_ND, batch), is_real, filling=torch.finfo(hidden_ND.dtype).min)
        return QuestionAnsweringModelOutput(start_logits=scores[..., 0], end_logits=scores[..., 1])


class HeadswapForLanguageModelling(HeadswapModel, transformers.GenerationMixin):
    """A causal or a masked language model."""

    _is_stateful = True  # there is no cache that generation could reorder

    def __init__(self, config: HeadswapConfig) -> None:
        super().__init__(config)
        if len(uses_of(self.text_model.shape, str(getattr(config, "objective", "causal")))) > 1:
            raise InputError(
                "This base generates and fills, with two attention directions, which one class of transformers cannot "
                "express. Use headswap.load(...).generate and .fill, or AutoModel for its vectors."
            )

    def output(self, hidden_ND: Tensor, batch: Batch, is_real: Tensor) -> Any:
        """Logits over the vocabulary for every token."""
        return CausalLMOutput(logits=padded(self.text_model.token_logits(hidden_ND), is_real))

    def prepare_inputs_for_generation(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **others: Any
    ) -> dict[str, Any]:
        """The whole text, since nothing is cached."""
        return {"input_ids": input_ids, "attention_mask": attention_mask}


class HeadswapTokenizer(transformers.PreTrainedTokenizerFast):
    """The tokenizer.json of a bundle, with the special tokens around a text that headswap adds.

    It returns segments if the base has them, and with `truncation=True` it cuts texts as headswap does.
    """

    vocab_files_names: ClassVar[dict[str, str]] = {"tokenizer_file": "tokenizer.json"}
    model_input_names: ClassVar[list[str]] = ["input_ids", "attention_mask"]

    def __init__(self, tokenizer_file: str | None = None, **settings: Any) -> None:
        file = Path(tokenizer_file or Path(settings["name_or_path"]) / "tokenizer.json")
        own = Tokenizer.load(file)
        content = json.loads(own.serialised) | {"post_processor": own.frame.as_template(own.piece)}
        roles = {"bos": own.sos_id, "eos": own.eos_id, "pad": own.pad_id, "unk": own.unk_id, "mask": own.mask_id}
        names = {f"{role}_token": own.piece(id) for role, id in roles.items() if id is not None}
        made = tokenizers.Tokenizer.from_str(json.dumps(content, ensure_ascii=False))
        settings.pop("tokenizer_object", None)
        super().__init__(tokenizer_object=made, **{**_inputs_of(file.parent / "config.json"), **settings, **names})


def padded(rows: Tensor, is_real: Tensor, *, filling: float = 0.0) -> Tensor:
    """One row per token of the input; rows of padding have the value `filling`."""
    result = rows.new_full((*is_real.shape, *rows.shape[1:]), filling)
    result[is_real] = rows
    return result


def _inputs_of(config: Path) -> dict[str, Any]:
    """What a tokenizer must know of the model next to it: whether it has segments, and how much it reads."""
    if not config.is_file():
        return {}
    values = read_json(config)
    shape = shape_of(values, config)
    longest = shape.base.max_position_embeddings
    state = task_state_of(values, config, longest=longest)
    segments = ["token_type_ids"] if shape.base.type_vocab_size >= 2 else []
    return {
        "model_input_names": ["input_ids", *segments, "attention_mask"],
        "model_max_length": state.max_length or longest,
    }


def _json_values(config: HeadswapConfig) -> dict[str, Any]:
    """The values of config.json as a bundle writes them: label numbers are texts, and num_labels is an entry."""
    values = config.to_dict()
    if values.get("head") != "lm":
        values["id2label"] = {str(number): label for number, label in config.id2label.items()}
        values["num_labels"] = len(values["id2label"])
    return values


transformers.AutoConfig.register("headswap", HeadswapConfig, exist_ok=True)
transformers.AutoTokenizer.register(HeadswapConfig, fast_tokenizer_class=HeadswapTokenizer, exist_ok=True)
for _auto, _class in (
    (transformers.AutoModel, HeadswapModel),
    (transformers.AutoModelForSequenceClassification, HeadswapForSequenceClassification),
    (transformers.AutoModelForTokenClassification, HeadswapForTokenClassification),
    (transformers.AutoModelForQuestionAnswering, HeadswapForQuestionAnswering),
    (transformers.AutoModelForCausalLM, HeadswapForLanguageModelling),
    (transformers.AutoModelForMaskedLM, HeadswapForLanguageModelling),
):
    _auto.register(HeadswapConfig, _class, exist_ok=True)
