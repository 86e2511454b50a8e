"""The model before the first step of fine-tuning."""

from pathlib import Path
from typing import Any

import pytest

import headswap as hs
from headswap.core.errors import RunError, SettingError
from headswap.model import swap
from tiny import ONE_THREAD, PRETRAIN


def test_a_tokenizer_other_than_that_of_the_base_is_an_error(tiny_runs: Path, tmp_path: Path) -> None:
    other = hs.pretrain(
        tiny_runs / "corpus.txt", out=tmp_path / "other", max_steps=1, kind="word", vocab_size=64, **PRETRAIN
    )
    with pytest.raises(SettingError, match="is not the tokenizer of"):
        hs.finetune(
            tiny_runs / "base", out=tmp_path / "run", train=tiny_runs / "few.jsonl", tokenizer=other.path, **ONE_THREAD
        )


def test_settings_of_a_new_tokenizer_are_an_error_with_a_base(tiny_runs: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="kind cannot be set"):
        hs.finetune(tiny_runs / "base", train=tiny_runs / "few.jsonl", out=tmp_path / "x", kind="word")


@pytest.mark.parametrize(
    "setting", [{"hidden_size": 32}, {"preset": "small"}, {"final_norm": False}, {"type_vocab_size": 0}]
)
def test_a_shape_setting_is_an_error_with_a_base(tiny_runs: Path, tmp_path: Path, setting: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=f"{next(iter(setting))}: the base has its own"):
        hs.finetune(tiny_runs / "base", out=tmp_path / "run", train=tiny_runs / "few.jsonl", **setting)


def test_a_base_that_was_trained_on_labels_is_reported(
    tiny_runs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"train": tiny_runs / "few.jsonl", "max_steps": 1, **ONE_THREAD}
    hs.finetune(tiny_runs / "base", out=tmp_path / "first", **given)
    assert "was already trained on labels" not in caplog.text
    hs.finetune(tiny_runs / "classifier", out=tmp_path / "again", **given)
    assert "is a classifier: it was already trained on labels" in caplog.text


def test_a_base_whose_tensors_are_not_all_kept_is_an_error(
    tiny_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = swap.build_model

    def forgetful(*arguments: Any, **named: Any) -> Any:
        """Loses a layer: its tensors have another name."""
        model = build(*arguments, **named)
        state = model.state_dict
        model.state_dict = lambda: {name.replace("layers.1", "layers.x"): value for name, value in state().items()}
        return model

    monkeypatch.setattr(swap, "build_model", forgetful)
    with pytest.raises(RunError, match=r"Only \d+ of the base's \d+ tensors could be kept"):
        hs.finetune(tiny_runs / "base", out=tmp_path / "run", train=tiny_runs / "few.jsonl", max_steps=1)
    assert not (tmp_path / "run").exists()
