"""`TextClassifier` and `TextRegressor`: `headswap finetune` as estimators of scikit-learn."""

from collections.abc import Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any, Literal

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from headswap.estimator.columns import classes_of, numbers_of, texts_of
from headswap.estimator.fitting import BundleEstimator, Rows
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.finetune import finetune
from headswap.inference.predict import predict_texts

PathName = str | PathLike[str]


class _Finetuned(BundleEstimator):
    """A fine-tuned model of one task."""

    _task: str
    result_: dict[str, Any]

    def __init__(
        self,
        base: PathName = "scratch",
        *,
        tokenizer: PathName | None = None,
        preset: str | None = None,
        trainable: str | None = None,
        pooling: str | None = None,
        max_length: int | None = None,
        num_train_epochs: float | None = None,
        max_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        dropout: float | None = None,
        device: Literal["auto", "cpu", "cuda"] | None = None,
        threads: int | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = 42,
        out: PathName | None = None,
        verbose: bool = False,
    ) -> None:
        self.base = base
        self.tokenizer = tokenizer
        self.preset = preset
        self.trainable = trainable
        self.pooling = pooling
        self.max_length = max_length
        self.num_train_epochs = num_train_epochs
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.dropout = dropout
        self.device = device
        self.threads = threads
        self.settings = settings
        self.random_state = random_state
        self.out = out
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        """y is needed."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _finetune(self, rows: Rows) -> None:
        """Fine-tune on rows with a text and a label, as `headswap.finetune` does with the same settings."""
        train = partial(finetune, reloads_in_fresh_process=False)
        self.result_ = self._train(train, FinetuneRecipe, rows, lambda file: {"train": file, "task": self._task})

    def _predictions(self, X: Any) -> Sequence[Any]:
        with self._fitted() as bundle:
            return predict_texts(bundle, texts_of(X, name=type(self).__name__))


class TextClassifier(ClassifierMixin, _Finetuned):
    """A classifier of texts: a base with a new head, fine-tuned on X (texts) and y (classes).

    Parameters that are None have the defaults of `headswap finetune`, whose help page (`--help-all`) describes them;
    `settings` holds those that are not parameters here, such as `{"lora_rank": 4}`. With the same
    settings the model has the same weights as that of `headswap.finetune`.

    base: "scratch", an installed base ("box:reviews-en-2"), a public checkpoint ("hf:FOLDER"), or the folder of a
        base.
    class_weight: None, or "balanced".
    random_state: an integer is the seed; None or a RandomState draws one in every fit.
    out: a new folder for the run; None uses a temporary folder, which is removed after the fit.
    verbose: print what the training logs.

    After `fit`: `classes_`, `bundle_` (with `save`), and `result_`, the `result.json` of the run. `n_features_in_` is
    not set, because X has no columns.
    """

    _task = "classify"

    def __init__(
        self,
        base: PathName = "scratch",
        *,
        tokenizer: PathName | None = None,
        preset: str | None = None,
        trainable: str | None = None,
        pooling: str | None = None,
        max_length: int | None = None,
        num_train_epochs: float | None = None,
        max_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        dropout: float | None = None,
        class_weight: Literal["balanced"] | None = None,
        calibrate: bool | None = None,
        device: Literal["auto", "cpu", "cuda"] | None = None,
        threads: int | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = 42,
        out: PathName | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            base, tokenizer=tokenizer, preset=preset, trainable=trainable, pooling=pooling, max_length=max_length,
            num_train_epochs=num_train_epochs, max_steps=max_steps, batch_size=batch_size, learning_rate=learning_rate,
            dropout=dropout, device=device, threads=threads, settings=settings, random_state=random_state, out=out,
            verbose=verbose,
        )  # fmt: skip
        self.class_weight = class_weight
        self.calibrate = calibrate

    def fit(self, X: Any, y: Any) -> "TextClassifier":
        """Fine-tune on the texts X with the classes y."""
        texts = texts_of(X, name=type(self).__name__)
        classes, numbers, names = classes_of(y, num_texts=len(texts), name=type(self).__name__)
        self._finetune([{"text": text, "label": names[number]} for text, number in zip(texts, numbers, strict=True)])
        self.classes_ = classes
        # The bundle sorts its labels as strings: the class 10 comes before 2 there.
        self._columns = [self.bundle_.labels.index(name) for name in names]
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each text."""
        best = self.predict_proba(X).argmax(axis=1)  # raises if the estimator is not fitted
        return self.classes_[best]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class (columns, in the order of `classes_`) for each text (rows)."""
        rows = [prediction.scores.row for prediction in self._predictions(X)]
        return np.array(rows, dtype=np.float64)[:, self._columns]

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class TextRegressor(RegressorMixin, _Finetuned):
    """A regression model of texts: a base with a new head, fine-tuned on X (texts) and y (numbers).

    The parameters are those of `TextClassifier` that apply. After `fit`: `bundle_` and `result_`.
    """

    _task = "regress"

    def fit(self, X: Any, y: Any) -> "TextRegressor":
        """Fine-tune on the texts X with the numbers y."""
        texts = texts_of(X, name=type(self).__name__)
        numbers = numbers_of(y, num_texts=len(texts), name=type(self).__name__)
        self._finetune([{"text": text, "label": number} for text, number in zip(texts, numbers.tolist(), strict=True)])
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The number of each text, in the unit of y."""
        return np.array([prediction.short for prediction in self._predictions(X)], dtype=np.float64)
