"""Names of the arms of a comparison: other settings are another arm, and no name has a folder of a machine."""

from pathlib import Path
from typing import Any

import pytest

from headswap.study.statistics.arm_names import arm_names, with_shared_files, with_study_names
from headswap.study.statistics.study_files import PlannedRun


def settings_of(**changes: Any) -> dict[str, Any]:
    """The settings of a run, flattened."""
    every = {
        "data.train": "train.csv",
        "consistency.unlabelled": [],
        "model.base": "runs/base",
        "model.hidden_size": None,
        "model.dropout": 0.1,
        "training.seed": 1,
        "training.learning_rate": 1e-3,
        "training.batch_size": 16,
        "training.num_train_epochs": 3.0,
        "head.pooling": "mean",
    }
    return every | {name.replace("__", "."): value for name, value in changes.items()}


def scratch(**changes: Any) -> dict[str, Any]:
    """The settings of a run from scratch."""
    return settings_of(**{"model__base": "scratch", "model__hidden_size": 128, **changes})


def names_of(*runs: dict[str, Any], sizes: list[int] | None = None) -> list[str]:
    """The names of runs with these settings, all with 100 labels unless `sizes` are given."""
    flat = {Path(str(number)): settings for number, settings in enumerate(runs)}
    return list(arm_names(flat, dict(zip(flat, sizes or [100] * len(runs), strict=True))).values())


def test_an_arm_is_named_by_as_few_settings_as_tell_it_apart() -> None:
    other = {"training__learning_rate": 1e-4, "training__batch_size": 8}
    found = names_of(
        settings_of(), settings_of(**other, head__pooling="last"), settings_of(**other, head__pooling="max")
    )
    assert found == ["pretrained pooling=mean", "pretrained pooling=last", "pretrained pooling=max"]


def test_runs_with_equal_settings_share_a_name_and_bases_that_are_called_alike_do_not() -> None:
    assert names_of(settings_of(), settings_of(training__seed=2)) == ["pretrained", "pretrained"]
    bases = ["/x/one/bundle", "/x/two/bundle", "/y/one/bundle", "scratch"]
    assert names_of(*(settings_of(model__base=base) for base in bases)) == ["x/one", "two", "y/one", "scratch"]
    assert names_of(*(settings_of(model__base=base) for base in ("/x/one", "/x/one/bundle", "/x/two"))) == [
        "one", "one", "two",
    ]  # fmt: skip


def test_a_base_in_a_folder_that_is_called_like_another_arm_has_another_name() -> None:
    bases = ["/x/scratch", "/x/tfidf", "scratch"]
    assert names_of(*(settings_of(model__base=base) for base in bases)) == ["x/scratch", "x/tfidf", "scratch"]


@pytest.mark.parametrize("with_base", [False, True])
def test_models_from_scratch_of_other_shapes_are_other_arms(with_base: bool) -> None:
    runs = [scratch(), scratch(model__hidden_size=512, training__seed=2), *([settings_of()] if with_base else [])]
    others = ["pretrained"] if with_base else []
    assert names_of(*runs) == ["scratch hidden_size=128", "scratch hidden_size=512", *others]


def test_settings_in_which_the_runs_of_one_base_agree_are_not_in_its_name() -> None:
    own = {"training__learning_rate": 1e-4, "model__dropout": 0.5}
    assert names_of(scratch(), settings_of(**own), settings_of(**own, training__seed=2)) == [
        "scratch", "pretrained", "pretrained",
    ]  # fmt: skip
    found = names_of(scratch(), settings_of(), settings_of(**own), settings_of(**own, head__pooling="last"))
    assert len(set(found)) == 4
    assert found[0] == "scratch"


def test_epochs_may_depend_on_the_number_of_labels_and_otherwise_make_another_arm() -> None:
    runs = [settings_of(training__num_train_epochs=epochs) for epochs in (20.0, 3.0)]
    assert names_of(*runs, sizes=[40, 400]) == ["pretrained", "pretrained"]
    assert names_of(*runs, sizes=[40, 40]) == ["pretrained num_train_epochs=20.0", "pretrained num_train_epochs=3.0"]
    others = [scratch(training__num_train_epochs=epochs) for epochs in (20.0, 10.0)]
    assert names_of(*runs, *others, sizes=[40, 400, 40, 400]) == ["pretrained"] * 2 + ["scratch"] * 2


def test_a_name_has_no_path_of_this_machine_beyond_what_tells_two_files_apart() -> None:
    def named(*files: str) -> list[str]:
        return names_of(*(settings_of(data__train=file) for file in files))

    assert named("data/a.csv", "/home/u/b.csv") == ["pretrained train=data/a.csv", "pretrained train=b.csv"]
    assert named("/home/u/b.csv", "/home/v/b.csv") == ["pretrained train=u/b.csv", "pretrained train=v/b.csv"]
    assert named("https://host/b.csv?key=1", "https://host/b.csv?key=2") == [
        "pretrained train=https://host/b.csv", "pretrained train=https://host/b.csv (2)",
    ]  # fmt: skip
    lists = [settings_of(consistency__unlabelled=files) for files in ([], ["/home/u/more.txt", "own.txt"])]
    assert names_of(*lists) == ["pretrained", "pretrained unlabelled=more.txt,own.txt"]


def test_the_empty_value_of_a_setting_or_else_its_default_is_not_in_a_name() -> None:
    found = names_of(settings_of(data__train="/home/u/a.csv"), settings_of(data__train=None))
    assert found == ["pretrained train=a.csv", "pretrained"]
    found = names_of(*(settings_of(training__rdrop_alpha=alpha) for alpha in (0.5, 0.0, 1.0)))
    assert found == ["pretrained rdrop_alpha=0.5", "pretrained", "pretrained rdrop_alpha=1.0"]
    found = names_of(*(settings_of(training__rdrop_alpha=alpha) for alpha in (None, 0.0)))
    assert found == ["pretrained", "pretrained rdrop_alpha=0.0"], "one value is left out, or two arms had one name"
    found = names_of(*(settings_of(training__calibrate=value) for value in (True, False)))
    assert found == ["pretrained calibrate=true", "pretrained"]


def study_names(*runs: tuple[str, str | None, str | None]) -> list[str]:
    """The names of runs, each given by its name from settings, its study and its arm there."""
    paths = [Path(str(number)) for number in range(len(runs))]
    planned = {
        path: PlannedRun(Path(study), arm, None)
        for path, (_, study, arm) in zip(paths, runs, strict=True)
        if study is not None and arm is not None
    }
    names = {path: name for path, (name, _, _) in zip(paths, runs, strict=True)}
    return list(with_study_names(names, planned).values())


def test_runs_of_a_study_have_its_arms_also_if_their_settings_differ() -> None:
    runs = [
        ("base-1 learning_rate=0.1", "/s/one", "pretrained"),
        ("base-2", "/s/one", "pretrained"),
        ("x", "/s/one", "box"),
    ]
    assert study_names(*runs) == ["pretrained", "pretrained", "box"]
    assert study_names(*runs, ("base-2", None, None), ("y", None, None))[3:] == ["pretrained", "y"]


def test_arms_of_two_studies_that_are_called_alike_are_one_only_with_the_same_settings() -> None:
    first = ("scratch", "/s/one", "scratch")
    assert study_names(first, ("scratch", "/s/two", "scratch")) == ["scratch", "scratch"]
    assert study_names(first, ("scratch width=8", "/s/two", "scratch")) == ["scratch (one)", "scratch (two)"]
    runs = [("base", "/s/one", "pretrained"), ("pretrained", None, None)]
    assert study_names(*runs) == ["pretrained (one)", "pretrained"], "a run of no study has this name"


def run_of_study(
    study: str, name: str, *, train: str = "1a2b", tokenizer: str = "tokenizer-11", **more: Any
) -> tuple[Path, dict[str, Any], PlannedRun]:
    """A run of a study as its recipe and its plan have it: `train` identifies the rows, `tokenizer` its job."""
    files = {"data__train": f"{study}/data/train.jsonl", "data__test": f"{study}/data/test.jsonl"}
    own = {"tokenizer__tokenizer": f"{study}/runs/{tokenizer}/tokenizer.json"}
    settings = settings_of(model__base="scratch", **files, **own, **more)
    needs, digests = {tokenizer, "base-seed1-22", "unlabelled-33"}, {"train": train, "test": "3c4d"}
    return Path(f"{study}/runs/{name}"), settings, PlannedRun(Path(study), name.partition("-")[0], None, digests, needs)


def names_of_studies(*runs: tuple[Path, dict[str, Any], PlannedRun]) -> list[str]:
    flat, planned = {path: one for path, one, _ in runs}, {path: plan for path, _, plan in runs}
    return list(
        with_study_names(arm_names(with_shared_files(flat, planned), dict.fromkeys(flat, 40)), planned).values()
    )


def test_arms_of_two_studies_are_one_if_their_files_have_the_same_content() -> None:
    first = run_of_study("/s/one", "scratch-1")
    assert names_of_studies(first, run_of_study("/s/two", "scratch-2")) == ["scratch", "scratch"]
    named = ["scratch (one)", "scratch (two)"]
    assert names_of_studies(first, run_of_study("/s/two", "scratch-2", train="ffff")) == named
    assert names_of_studies(first, run_of_study("/s/two", "scratch-2", tokenizer="tokenizer-99")) == named
    assert names_of_studies(first, run_of_study("/s/two", "scratch-2", head__pooling="last")) == named


def test_a_base_and_texts_that_a_study_made_are_those_of_their_jobs() -> None:
    def consistency(study: str, base: str = "base-seed1-22") -> tuple[Path, dict[str, Any], PlannedRun]:
        path, settings, plan = run_of_study(study, "mine-1")
        made = {"model.base": f"{study}/runs/{base}"}
        return path, settings | made | {"consistency.unlabelled": [f"{study}/runs/unlabelled-33/texts.jsonl"]}, plan

    assert names_of_studies(consistency("/s/one"), consistency("/s/two")) == ["mine", "mine"]
    assert names_of_studies(consistency("/s/one"), consistency("/s/two", "base-seed1-99")) == [
        "mine (one)",
        "mine (two)",
    ]


def test_defaults_that_depend_on_the_number_of_labels_are_no_other_arm() -> None:
    small = settings_of(adaptation__unfreeze="gradual", adaptation__head_init="linear")
    large = settings_of(
        adaptation__unfreeze="at-once", adaptation__head_init="random", training__batch_size=32,
        training__num_train_epochs=5.0,
    )  # fmt: skip
    assert names_of(small, large, sizes=[100, 40_000]) == ["pretrained", "pretrained"]
    assert len(set(names_of(small, large))) == 2, "with as many labels they are two arms"
