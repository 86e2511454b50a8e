"""headswap: pre-train a Transformer on your own text, swap its head, fine-tune it, learn what pre-training bought.

import headswap as hs
run = hs.pretrain(corpus="reviews.txt", out="runs/base", max_minutes=5)
clf = hs.finetune(base=run, train="train.csv", test="test.csv", out="runs/classifier")
clf.model.predict(["a fine film"])
"""

from importlib import import_module

TYPE_CHECKING = False  # typing is not imported: `python -m headswap` would find it in the current folder first

__version__ = "0.1.0"

_HOMES = {
    "pretrain": "headswap.api.functions",
    "adapt": "headswap.api.functions",
    "finetune": "headswap.api.functions",
    "load": "headswap.api.functions",
    "run_study": "headswap.api.functions",
    "Bundle": "headswap.bundle.bundle",
    "Model": "headswap.api.model",
    "Observer": "headswap.training.observer",
    "Run": "headswap.api.run",
    "TextClassifier": "headswap.estimator.supervised",
    "TextEmbedder": "headswap.estimator.embedder",
    "TextRegressor": "headswap.estimator.supervised",
    "Texts": "headswap.api.inputs",
    "HeadswapError": "headswap.core.errors",
}
__all__ = [
    "Bundle",
    "HeadswapError",
    "Model",
    "Observer",
    "Run",
    "TextClassifier",
    "TextEmbedder",
    "TextRegressor",
    "Texts",
    "__version__",
    "adapt",
    "finetune",
    "load",
    "pretrain",
    "run_study",
]

if TYPE_CHECKING:
    from typing import Any

    from headswap.api.functions import adapt, finetune, load, pretrain, run_study
    from headswap.api.inputs import Texts
    from headswap.api.model import Model
    from headswap.api.run import Run
    from headswap.bundle.bundle import Bundle
    from headswap.core.errors import HeadswapError
    from headswap.estimator.embedder import TextEmbedder
    from headswap.estimator.supervised import TextClassifier, TextRegressor
    from headswap.training.observer import Observer


def __getattr__(name: str) -> "Any":
    if name not in _HOMES:
        raise AttributeError(f"module 'headswap' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
