"""Exported graphs in onnxruntime: the same answers as headswap, without torch and headswap."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import headswap as hs
from bundles import make_bundle
from cli_calls import call_json
from headswap.core.errors import RunError
from headswap.interop.config import ExportSettings
from headswap.interop.onnx_out import Onnx
from headswap.model.shape import HeadShape
from headswap.tasks.task import with_state
from headswap.tokens.tokenizer import Tokenizer
from tiny import sentences

for package in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(package, reason=f"needs {package}: make test-ecosystem")
pytestmark = pytest.mark.ecosystem
ROOT = Path(__file__).parents[2]
SHAPES = {
    "classify, causal": {"head": "classify", "pooling": "weighted-mean"},
    "classify, both ways, rotary": {"head": "classify", "preset": "modern", "direction": "bidirectional"},
    "classify, sinusoidal, last": {"head": "classify", "preset": "lab", "pooling": "last"},
    "pairs as two sequences": {
        "head": "compare",
        "direction": "bidirectional",
        "classifier": HeadShape(head_norm="layer"),
    },
    "pairs as two sequences, segments": {"head": "compare", "type_vocab_size": 2},
    "normalised": {"head": "classify", "classifier": HeadShape(head_norm="layer")},
    "segments": {"head": "classify", "type_vocab_size": 2, "pooling": "mean+max"},
    "tags": {"head": "tag", "direction": "bidirectional"},
    "spans": {"head": "span", "direction": "bidirectional"},
    "language model": {"head": "lm"},
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_graph_computes_what_the_model_computes(tmp_path: Path, tokenizer: Tokenizer, name: str) -> None:
    bundle = make_bundle(tokenizer, **SHAPES[name])
    found = Onnx().export(bundle, tmp_path / "onnx", ExportSettings())
    assert found.facts["largest_difference"] < 1e-4


def test_the_example_of_the_document_gives_our_probabilities_without_torch_and_headswap(
    tmp_path: Path, tiny_classifier: hs.Run, tiny_runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = hs.load(tiny_classifier, device="cpu")
    given = ("export", tiny_classifier.path, "--to", "onnx", "--out", tmp_path / "onnx", "--max-drop", "0")
    found = call_json(capsys, *given, "--test", tiny_runs / "test.jsonl")
    assert found["ours"] == found["exported"] == tiny_classifier.result["test"]["accuracy"]
    card = (tmp_path / "onnx" / "README.md").read_text(encoding="utf-8")
    assert f"value: {found['exported']}" in card
    assert "measured on the exported model" in card
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "onnx.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    blocked = "import sys\nsys.modules['torch'] = sys.modules['headswap'] = sys.modules['transformers'] = None\n"
    done = subprocess.run(
        [sys.executable, "-I", "-c", blocked + code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    texts = ["a fine, moving film", "a waste of time"]
    theirs = eval(done.stdout)
    assert [label for label, _ in theirs] == model.predict(texts)
    np.testing.assert_allclose([row for _, row in theirs], model.predict_proba(texts), atol=1e-4)


def accuracy_of_folder(folder: Path, rows: list[dict[str, str]]) -> float:
    """The accuracy by the recipe of docs/onnx.md."""
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer as TheirTokenizer

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tokenizer = TheirTokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    tokenizer.enable_truncation(config["max_length"])
    tokenizer.enable_padding(pad_id=config["pad_token_id"])
    encoded = tokenizer.encode_batch([row["text"] for row in rows])
    given = {
        "input_ids": np.array([one.ids for one in encoded]),
        "attention_mask": np.array([one.attention_mask for one in encoded]),
    }
    best = InferenceSession(folder / "model.onnx").run(["logits"], given)[0].argmax(1)
    return float(np.mean([config["labels"][number] == row["label"] for number, row in zip(best, rows, strict=True)]))


@pytest.mark.parametrize(("long", "stride"), [("head+tail", None), ("windows", 2)])
def test_the_score_of_an_export_is_that_of_its_tokenizer(
    long: str, stride: int | None, tmp_path: Path, tiny_classifier: hs.Run, caplog: pytest.LogCaptureFixture
) -> None:
    bundle = hs.load(tiny_classifier, device="cpu").bundle
    bundle = with_state(bundle, long=long, doc_stride=stride, max_length=24)
    rows = [{"text": "and the film " * 8 + 6 * text, "label": label} for text, label in sentences(60, seed=7)]
    test = tmp_path / "long.jsonl"
    test.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = Onnx().export(bundle, tmp_path / "onnx", ExportSettings(test=str(test), max_drop=100))
    assert found.facts["exported"] == pytest.approx(accuracy_of_folder(tmp_path / "onnx", rows))
    assert found.facts["ours"] > found.facts["exported"] + 0.2, found.facts
    config = json.loads((tmp_path / "onnx" / "config.json").read_text(encoding="utf-8"))
    assert (config["long"], config["doc_stride"]) == (long, stride)
    card = (tmp_path / "onnx" / "README.md").read_text(encoding="utf-8")
    assert "keeps only their beginning" in card
    assert f"value: {found.facts['exported']}" in card
    assert "keeps only their beginning" in caplog.text
    with pytest.raises(RunError, match=r"falls by .* points.*Nothing was written"):
        Onnx().export(bundle, tmp_path / "refused", ExportSettings(test=str(test)))


def test_a_quantized_model_is_smaller_and_a_large_drop_is_an_error_that_writes_nothing(
    tmp_path: Path, tiny_classifier: hs.Run, tiny_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = hs.load(tiny_classifier, device="cpu").bundle
    settings = ExportSettings(quantize="int8", test=str(tiny_runs / "test.jsonl"), max_drop=5)
    found = Onnx().export(bundle, tmp_path / "int8", settings)
    assert found.facts["drop_in_points"] <= 5
    Onnx().export(bundle, tmp_path / "plain", ExportSettings())
    assert (tmp_path / "int8" / "model.onnx").stat().st_size < (tmp_path / "plain" / "model.onnx").stat().st_size

    def damage(file: Path) -> None:
        import onnx
        from onnx import numpy_helper

        graph = onnx.load(file)
        for tensor in graph.graph.initializer:
            values = numpy_helper.to_array(tensor)
            if values.dtype == np.float32 and values.ndim == 2:
                tensor.CopyFrom(numpy_helper.from_array(np.zeros_like(values), tensor.name))
        onnx.save(graph, file)

    monkeypatch.setattr("headswap.interop.onnx_out.quantize", damage)
    with pytest.raises(RunError, match=r"falls by .* points.*Nothing was written"):
        Onnx().export(bundle, tmp_path / "damaged", settings)
    assert not (tmp_path / "damaged").exists()
