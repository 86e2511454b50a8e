"""Answers of an exported classifier by onnxruntime and tokenizers. Arguments: the folder of the exports, then texts."""

import json
import sys
from importlib.util import find_spec

import numpy as np
import onnxruntime
import tokenizers

assert all(find_spec(name) is None for name in ("headswap", "torch", "transformers"))
folder, *texts = sys.argv[1:]
with open(f"{folder}/onnx/config.json", encoding="utf-8") as file:
    config = json.load(file)
tokenizer = tokenizers.Tokenizer.from_file(f"{folder}/onnx/tokenizer.json")
tokenizer.enable_truncation(config["max_length"])
tokenizer.enable_padding(pad_id=config["pad_token_id"])
encoded = tokenizer.encode_batch(texts)
given = {
    "input_ids": np.array([one.ids for one in encoded]),
    "attention_mask": np.array([one.attention_mask for one in encoded]),
}
logits = onnxruntime.InferenceSession(f"{folder}/onnx/model.onnx").run(["logits"], given)[0]
probabilities = np.exp(logits - logits.max(1, keepdims=True))
probabilities /= probabilities.sum(1, keepdims=True)
labels = [config["labels"][row.argmax()] for row in probabilities]
versions = {"onnxruntime": onnxruntime.__version__, "tokenizers": tokenizers.__version__}
print(json.dumps({"labels": labels, "probabilities": probabilities.tolist(), "versions": versions}))
