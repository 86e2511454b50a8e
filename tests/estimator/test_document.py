"""The code of docs/sklearn.md runs."""

import re
import warnings
from pathlib import Path

import pytest

import headswap as hs
from tiny import PRETRAIN, sentences

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_the_code_of_the_document_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    hs.pretrain(hs.Texts(text for text, _ in sentences(300)), out="runs/base", max_steps=5, **PRETRAIN)
    rows = "".join(f'"{text}",{label}\n' for text, label in sentences(60, seed=1))
    Path("train.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "sklearn.md").read_text(encoding="utf-8"), re.DOTALL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(code, "docs/sklearn.md", "exec"), {})
    assert "best_params" not in capsys.readouterr().out
    assert hs.load("bundles/best").labels == ("neg", "pos")
