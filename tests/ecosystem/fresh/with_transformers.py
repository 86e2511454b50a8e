"""Answers of an exported classifier by transformers alone. Arguments: the folder of the exports, then the texts."""

import json
import sys
from importlib.util import find_spec

import torch
import transformers

assert find_spec("headswap") is None
assert find_spec("sentence_transformers") is None
folder, *texts = sys.argv[1:]
model = transformers.AutoModelForSequenceClassification.from_pretrained(f"{folder}/hf").eval()
tokenizer = transformers.AutoTokenizer.from_pretrained(f"{folder}/hf")
with torch.no_grad():
    logits = model(**tokenizer(texts, padding=True, truncation=True, return_tensors="pt")).logits
labels = [model.config.id2label[number] for number in logits.argmax(1).tolist()]
pipeline = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
assert [answer["label"] for answer in pipeline(texts)] == labels
versions = {"transformers": transformers.__version__, "torch": torch.__version__}
print(json.dumps({"labels": labels, "probabilities": logits.softmax(1).tolist(), "versions": versions}))
