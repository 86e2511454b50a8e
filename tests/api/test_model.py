"""A model in Python: loading and generating."""

import pytest

import headswap as hs
from headswap.core.errors import HeadswapError, SettingError


def test_generating_logs_how_much_of_the_prompt_is_read(tiny_base: hs.Run, caplog: pytest.LogCaptureFixture) -> None:
    tiny_base.model.generate("the film was lovely " * 50, max_new_tokens=1)
    assert "the model uses the last 24 of them" in caplog.text


def test_sampling_settings_without_a_temperature_are_an_error(tiny_base: hs.Run) -> None:
    with pytest.raises(SettingError, match="need a temperature above 0"):
        tiny_base.model.generate("the", top_k=5)
    with pytest.raises(HeadswapError, match="max_new_token is not a setting"):
        tiny_base.model.generate("the", max_new_token=5)


def test_loading_twice_generates_the_same(tiny_base: hs.Run) -> None:
    first, second = (hs.load(tiny_base.path).generate("the", max_new_tokens=3) for _ in range(2))
    assert first == second
