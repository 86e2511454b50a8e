"""Answers of a classifier by its scikit-learn estimator, restored from a pickle.

Arguments: the folder of the exports, then the texts.
"""

import json
import pickle
import sys
from importlib.util import find_spec
from pathlib import Path

import sklearn
import torch

assert find_spec("transformers") is None
folder, *texts = sys.argv[1:]
model = pickle.loads(Path(folder, "estimator.pkl").read_bytes())
probabilities = model.predict_proba(texts)
labels = model.predict(texts).tolist()
versions = {"scikit-learn": sklearn.__version__, "torch": torch.__version__}
print(json.dumps({"labels": labels, "probabilities": probabilities.tolist(), "versions": versions}))
