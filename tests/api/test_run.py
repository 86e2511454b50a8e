"""A run: its folder, result, model and plot."""

from pathlib import Path

import headswap as hs


def test_a_run_is_folder_result_model_and_plot(classifier: hs.Run, bases: dict[str, hs.Run], tmp_path: Path) -> None:
    assert classifier.result["task"] == "classify"
    assert classifier.model.labels == ("neg", "pos")
    assert not {"begin", "cut_metrics", "release"} & set(dir(classifier))
    assert "/" not in repr(classifier)
    classifier.plot(path=tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    figure = bases["causal"].plot()
    assert [axis.get_xlabel() for axis in figure.axes] == ["step"] * len(figure.axes)
