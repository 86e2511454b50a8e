"""`headswap evaluate`."""

from pathlib import Path

import pytest

from cli_calls import MACHINE, call, call_json, call_wrong


def test_unknown_label_is_reported(capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.jsonl").write_text('{"text": "so so", "label": "neutral"}\n')
    assert "neutral" in call_wrong(capsys, "evaluate", shared / "classifier", tmp_path / "odd.jsonl", *MACHINE)


def test_evaluate_scores_classifiers_and_language_models(capsys: pytest.CaptureFixture[str], shared: Path) -> None:
    found = call_json(capsys, "evaluate", shared / "classifier", shared / "test.jsonl", *MACHINE)
    assert found["accuracy"] > 0.9
    assert found["num_examples"] == 20
    found = call_json(capsys, "evaluate", shared / "base", shared / "corpus.txt", *MACHINE)
    assert found["num_documents"] == 120
    assert {"loss", "perplexity", "bits_per_byte"} <= set(found)
    assert "accuracy" in call(capsys, "evaluate", shared / "classifier", shared / "test.jsonl", *MACHINE)
    assert "--max-length is 99" in call_wrong(
        capsys, "evaluate", shared / "base", shared / "corpus.txt", "--max-length", 99, *MACHINE
    )
