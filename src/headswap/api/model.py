"""`Model`: a loaded model and everything that can be asked of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import numpy as np

from headswap.api.inputs import PathName, Rows, as_inputs, as_labelled
from headswap.bundle.bundle import Bundle
from headswap.bundle.rename_labels import renamed_labels
from headswap.core.errors import InputError, SettingError
from headswap.core.settings import validate
from headswap.data.config import ColumnSettings, DocumentUnit
from headswap.inference.embed import embed_texts
from headswap.inference.evaluate import score_language_model, score_task
from headswap.inference.generate.config import SamplingSettings
from headswap.inference.generate.fill import Filled, Filler
from headswap.inference.generate.generator import Generator
from headswap.inference.predict import predict_texts
from headswap.model.shape import Pooling
from headswap.tasks.predictions import LabelScores, Prediction
from headswap.training.config import DeviceName, MachineSettings
from headswap.training.device import Machine, device_of


class Model:
    """A model with its tokenizer and labels, on a device. `headswap.load` makes one."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle

    @classmethod
    def load(cls, path: str | Path, *, device: DeviceName = "auto", allow_download: bool = False) -> "Model":
        """Read a bundle, a run folder, an installed base (`box:NAME`) or a public checkpoint (`hf:NAME`)."""
        return cls(Bundle.load(path, device=device_of(device), allow_download=allow_download))

    def __repr__(self) -> str:
        return f"Model({self.name!r}: {self.bundle.what})"

    @property
    def name(self) -> str:
        """The name of the run or bundle folder."""
        folder = self.bundle.path
        if folder is None:
            return "unsaved"
        return folder.parent.name if folder.name == "bundle" else folder.name

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of a fine-tuned model; empty for a language model."""
        return self.bundle.labels

    @property
    def card(self) -> Mapping[str, Any]:
        """How the model was made."""
        return self.bundle.card

    def rename_labels(self, names: Mapping[str, str]) -> "Model":
        """A model with other label names and the same weights: `{"neg": "negative"}`. `save` writes it as a bundle."""
        return Model(replace(self.bundle, labels=renamed_labels(self.bundle, names)))

    def predict(self, texts: Sequence[Any], *, abstain_below: float | None = None) -> list[Any]:
        """One prediction per input, by task: a label, labels, a value, the tags of its words, or the answer's text.

        An input is a text; a pair of texts where the model reads pairs; a text or a list of words for a tagger; a pair
        (question, context) for a question answerer. Labels are strings, as in `labels`, also if those of the training
        set were integers or booleans ("1", "true"). A classifier returns None for a text whose highest probability is
        below `abstain_below`.
        """
        return [prediction.short for prediction in self.predictions(texts, abstain_below=abstain_below)]

    def predictions(self, texts: Sequence[Any], *, abstain_below: float | None = None) -> list[Prediction]:
        """One prediction per input, with scores."""
        return predict_texts(self.bundle, as_inputs(texts), abstain_below=abstain_below)

    def predict_proba(self, texts: Sequence[Any]) -> np.ndarray:
        """The probability of every label (columns, in the order of `labels`) for every text (rows)."""
        scores = [getattr(prediction, "scores", None) for prediction in self.predictions(texts)]
        rows = [one.row for one in scores if isinstance(one, LabelScores)]
        if len(rows) < len(scores):
            raise InputError(f"{self.name} is {self.bundle.what}, which has no probability per label. Use predict().")
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(self.labels))

    @overload
    def generate(self, prompt: str, **settings: Any) -> str: ...

    @overload
    def generate(self, prompt: Sequence[str], **settings: Any) -> list[str]: ...

    def generate(self, prompt: str | Sequence[str], **settings: Any) -> str | list[str]:
        """Continue a prompt, or several at once; the settings are those of `headswap generate`."""
        prompts = [prompt] if isinstance(prompt, str) else list(prompt)
        found = Generator(self.bundle).continue_texts(prompts, validate(SamplingSettings, settings))
        texts = [continuation.text for continuation in found]
        return texts[0] if isinstance(prompt, str) else texts

    @overload
    def fill(self, text: str, *, top_k: int = 5) -> Filled: ...  # type: ignore[overload-overlap]

    @overload
    def fill(self, text: Sequence[str], *, top_k: int = 5) -> list[Filled]: ...

    def fill(self, text: str | Sequence[str], *, top_k: int = 5) -> Filled | list[Filled]:
        """The `top_k` most probable tokens for every `<mask>` of a text, or of several."""
        filler = Filler(self.bundle)
        if isinstance(text, str):
            return filler.fill(text, top_k=top_k)
        return [filler.fill(one, top_k=top_k) for one in text]

    def embed(
        self,
        texts: Sequence[str],
        *,
        pooling: Pooling = "mean",
        normalize: bool = False,
        max_length: int | None = None,
    ) -> np.ndarray:
        """One vector per text (rows), pooled over the tokens; with `normalize` every vector has length 1."""
        return embed_texts(self.bundle, as_inputs(texts), pooling=pooling, normalize=normalize, max_length=max_length)

    def evaluate(
        self,
        data: PathName | Rows,
        *,
        label_file: str | None = None,
        max_length: int | None = None,
        abstain_below: float | None = None,
        documents: DocumentUnit | None = None,
        **columns: Any,
    ) -> dict[str, Any]:
        """Every metric on a labelled set (a file or rows in memory), or the loss of a language model on a corpus.

        Column names are those of `headswap evaluate`: text_column, label_column, ... With `abstain_below` the entry
        `abstention` has the coverage and the accuracy of the texts that a classifier then answers. `documents` (file,
        line, ...) says what a document of a corpus is.
        """
        machine = Machine(MachineSettings(device="cpu" if self.bundle.model.device.type == "cpu" else "cuda"))
        names = validate(ColumnSettings, columns)
        if self.bundle.model.shape.head == "lm":
            given = names.model_fields_set - {"text_column"}
            given |= {"label_file"} if label_file is not None else set()
            given |= {"abstain_below"} if abstain_below is not None else set()
            if given:
                raise SettingError(f"{' and '.join(sorted(given))} cannot be used: the model is a language model.")
            return score_language_model(
                self.bundle, as_labelled(data), text_column=names.text_column, documents=documents or "auto",
                max_length=max_length, autocast=machine.scoring(),
            )  # fmt: skip
        if documents is not None:
            raise SettingError("documents cannot be used: the model is no language model.")
        return score_task(
            self.bundle, as_labelled(data), columns=names, label_file=label_file, max_length=max_length,
            autocast=machine.scoring(), abstain_below=abstain_below,
        )  # fmt: skip

    def save(self, folder: str | Path) -> None:
        """Write the model as a bundle."""
        self.bundle.save(Path(folder))
