"""`TextEmbedder`: texts as vectors, a transformer of scikit-learn."""

from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any, Literal, get_args

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from headswap.core.errors import listed
from headswap.estimator.columns import texts_of
from headswap.estimator.fitting import OWN, BundleEstimator, ParameterError, value_errors
from headswap.estimator.pickled_bundle import load_without_path
from headswap.inference.embed import embed_texts
from headswap.model.shape import Pooling
from headswap.pretraining.config import AdaptRecipe, PretrainRecipe
from headswap.pretraining.pretrain import adapt, pretrain

PathName = str | PathLike[str]
NOT_FOR_TRAINING = frozenset({"base", "adapt", "pooling", "device", "random_state", "verbose"})


class TextEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BundleEstimator):
    """The vectors of texts, pooled over the tokens of a base.

    base: an installed base ("box:reviews-en-2"), a public checkpoint ("hf:FOLDER") or the folder of a base, which is
    used as it is; or "scratch", to pre-train a base on X in `fit`, as `headswap pretrain` does.
    adapt: continue the pre-training of the base on X in `fit`, as `headswap adapt` does.
    pooling: how token vectors become one vector: mean, weighted-mean, last, first, max or mean+max.

    The other parameters are those of `headswap pretrain` and `adapt` and of `TextClassifier`. They are allowed only if
    `fit` trains. After `fit`: `bundle_` and, if `fit` trained, `result_`, the `result.json` of the run.
    """

    not_settings = OWN | {"base", "adapt", "pooling"}

    def __init__(
        self,
        base: PathName = "scratch",
        *,
        adapt: bool = False,
        pooling: str = "mean",
        objective: str | None = None,
        tokenizer: PathName | None = None,
        preset: str | None = None,
        max_length: int | None = None,
        num_train_epochs: float | None = None,
        max_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        device: Literal["auto", "cpu", "cuda"] | None = None,
        threads: int | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = 42,
        out: PathName | None = None,
        verbose: bool = False,
    ) -> None:
        self.base = base
        self.adapt = adapt
        self.pooling = pooling
        self.objective = objective
        self.tokenizer = tokenizer
        self.preset = preset
        self.max_length = max_length
        self.num_train_epochs = num_train_epochs
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.device = device
        self.threads = threads
        self.settings = settings
        self.random_state = random_state
        self.out = out
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> "TextEmbedder":
        """Load the base, or train it on the texts X; y is ignored."""
        del y
        texts = texts_of(X, name=type(self).__name__)
        if self.pooling not in get_args(Pooling):
            raise ParameterError(
                f"pooling = {self.pooling!r} is not allowed: it is one of {listed(get_args(Pooling))}."
            )
        rows = [{"text": text} for text in texts]
        if self.base == "scratch" and self.adapt:
            raise ParameterError("adapt continues the pre-training of a base, but base is 'scratch'. Give a base.")
        if self.base == "scratch":
            self.result_ = self._train(pretrain, PretrainRecipe, rows, lambda file: {"corpus": (file,)})
        elif self.adapt:
            more = {"base": fspath(self.base)}
            self.result_ = self._train(adapt, AdaptRecipe, rows, lambda file: more | {"corpus": (file,)})
        else:
            self._load()
        self._n_features_out = self.bundle_.model.shape.base.hidden_size * len(self.pooling.split("+"))
        return self

    def transform(self, X: Any) -> np.ndarray:
        """One vector per text (rows), in single precision."""
        with self._fitted() as bundle:
            return embed_texts(bundle, texts_of(X, name=type(self).__name__), pooling=self.pooling)  # type: ignore[arg-type]

    def _load(self) -> None:
        """Use the base as it is; a setting of a training has no effect then."""
        given = [name for name, value in self.get_params(deep=False).items() if value is not None]
        if unused := [name for name in given if name not in NOT_FOR_TRAINING]:
            raise ParameterError(
                f"{listed(unused)}: no effect, because the base is used as it is. Pass adapt=True to train it on X, or "
                "leave them out."
            )
        self._forget()
        with value_errors():
            self.bundle_ = load_without_path(fspath(self.base), self.device or "auto")
