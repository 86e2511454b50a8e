"""Answers of an exported classifier by sentence-transformers: its vectors, times the class layer of the classifier.

Arguments: the folder of the exports, then the texts.
"""

import json
import sys
from importlib.util import find_spec

import sentence_transformers
import torch
from safetensors.torch import load_file

assert find_spec("headswap") is None
folder, *texts = sys.argv[1:]
model = sentence_transformers.SentenceTransformer(f"{folder}/sentence-transformers", device="cpu")
vectors = model.encode(texts, convert_to_tensor=True)
logits = vectors @ load_file(f"{folder}/hf/model.safetensors")["score.weight"].T
with open(f"{folder}/hf/config.json", encoding="utf-8") as file:
    names = json.load(file)["id2label"]
labels = [names[str(number)] for number in logits.argmax(1).tolist()]
versions = {"sentence-transformers": sentence_transformers.__version__, "torch": torch.__version__}
print(json.dumps({"labels": labels, "probabilities": logits.softmax(1).tolist(), "versions": versions}))
