"""A study with a mistake is refused before anything is trained or written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from boxed import tiny_base
from headswap.core.errors import HeadswapError, SettingError
from headswap.core.settings import load_recipe
from headswap.study.initialize import initialize
from headswap.study.run import run_study
from headswap.study.setup.arms import read_arms
from headswap.study.setup.config import StudyRecipe
from headswap.study.setup.folder import locked_folder
from headswap.tokens.tokenizer import Tokenizer
from study_fixture import sections_of, snapshot, task_sections, write_unique
from task_data import write_rows


def mistyped_train(given: dict[str, Any], _files: Path, _tokenizer: Tokenizer) -> None:
    given["data"]["train"] = given["data"]["train"].replace("train", "tain")


def mistyped_corpus(given: dict[str, Any], files: Path, _tokenizer: Tokenizer) -> None:
    given["study"]["corpus"] = (str(files / "corpsu.jsonl"),)


def no_test_set(given: dict[str, Any], _files: Path, _tokenizer: Tokenizer) -> None:
    del given["data"]["test"]


def foreign_label(given: dict[str, Any], _files: Path, _tokenizer: Tokenizer) -> None:
    with Path(given["data"]["test"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"text": "a label that train does not have", "label": "mixed"}) + "\n")


def too_large_budget(given: dict[str, Any], _files: Path, _tokenizer: Tokenizer) -> None:
    given["study"]["budgets"] = ("5000",)


def too_small_budget(given: dict[str, Any], _files: Path, _tokenizer: Tokenizer) -> None:
    given["study"]["budgets"] = ("2",)
    with Path(given["data"]["train"]).open("a", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": f"neither {number}", "label": "mixed"}) + "\n" for number in range(5))


def missing_base(given: dict[str, Any], files: Path, _tokenizer: Tokenizer) -> None:
    (files / "arm.toml").write_text(f'verb = "finetune"\n[model]\nbase = "{files / "no-base"}"\n')
    given["study"]["arms"] = (str(files / "arm.toml"),)


def damaged_base(given: dict[str, Any], files: Path, tokenizer: Tokenizer) -> None:
    weights = tiny_base(files / "base", tokenizer) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    given["study"]["arms"] = (str(files / "base"),)


def base_for_shorter_texts(given: dict[str, Any], files: Path, tokenizer: Tokenizer) -> None:
    given["study"] |= {"arms": (str(tiny_base(files / "base", tokenizer)),), "max_length": 64}


def missing_tokenizer(given: dict[str, Any], files: Path, _tokenizer: Tokenizer) -> None:
    given["study"]["arms"] = ("scratch",)
    given["tokenizer"] = {"tokenizer": str(files / "no-tokenizer.json")}


def impossible_shape(given: dict[str, Any], _files: Path, _tokenizer: Tokenizer) -> None:
    given["study"]["arms"] = ("pretrained",)
    given["model"] = given["model"] | {"num_attention_heads": 3}


def impossible_adaptation(given: dict[str, Any], _files: Path, _tokenizer: Tokenizer) -> None:
    given["study"]["arms"] = ("gradual",)
    given["adaptation"] = {"trainable": "head"}


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (mistyped_train, r"tain\.jsonl does not exist\. Did you mean '.*train\.jsonl'"),
        (mistyped_corpus, r"corpsu\.jsonl does not exist"),
        (no_test_set, "needs a test set"),
        (foreign_label, "mixed"),
        (too_large_budget, "A budget of 5,000 labels is too large"),
        (too_small_budget, "A budget of 2 labels is too small for one label of each of the 3 classes"),
        (missing_base, "no-base does not exist"),
        (damaged_base, r"model\.safetensors has .* bytes"),
        (base_for_shorter_texts, "max_length is 64, but the base .* takes at most 40 tokens"),
        (missing_tokenizer, r"no-tokenizer\.json does not exist"),
        (impossible_shape, "hidden_size 32 is not a multiple of num_attention_heads 3"),
        (impossible_adaptation, "no effect with --trainable head"),
    ],
)
@pytest.mark.parametrize("overwrite", [True, False])
def test_a_mistake_leaves_every_byte_of_the_old_study(
    out: Path, given: dict[str, Any], tokenizer: Tokenizer, mistake: Callable[..., None], words: str, overwrite: bool
) -> None:
    mistake(given, out.parent / "files", tokenizer)
    before = snapshot(out)
    with pytest.raises(HeadswapError, match=words):
        run_study(out=out, sections=given, overwrite=overwrite)
    assert snapshot(out) == before
    assert sorted(path.name for path in out.parent.iterdir() if path.name.startswith(".")) == []


def test_a_budget_below_the_number_of_classes_is_refused(tmp_path: Path) -> None:
    given = sections_of(tmp_path, budgets=("2", "40"))
    with Path(given["data"]["train"]).open("a", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": f"neither {number}", "label": "mixed"}) + "\n" for number in range(5))
    with pytest.raises(SettingError, match="budget of 2 labels is too small for one label of each of the 3 classes"):
        run_study(out=tmp_path / "out", sections=given)
    assert not (tmp_path / "out" / "runs").exists()


def check(out: Path, given: dict[str, Any]) -> None:
    """The checks before a study starts, without the study."""
    recipe = load_recipe(StudyRecipe, None, given)
    with locked_folder(out) as lock:
        initialize(recipe, read_arms(recipe), out, lock, overwrite=False)


@pytest.mark.parametrize(("hold_out_from", "is_refused"), [(50, False), (100, False), (101, True), (500, True)])
def test_calibration_needs_labels_that_are_held_out(tmp_path: Path, hold_out_from: int, is_refused: bool) -> None:
    given = sections_of(tmp_path, arms=("scratch",), budgets=("100",), seeds=2)
    given["finetune"]["calibrate"] = True
    given["data"]["hold_out_from"] = hold_out_from
    if is_refused:
        with pytest.raises(SettingError, match=rf"budgets below {hold_out_from} labels have none \(here: 100\)"):
            check(tmp_path / "out", given)
    else:
        check(tmp_path / "out", given)


@pytest.mark.parametrize("name", ["{}", "adapted:{}"])
def test_a_base_without_a_separator_is_refused_for_joined_pairs_before_it_is_adapted(tmp_path: Path, name: str) -> None:
    vocabulary = {"<sos>": 0, "<pad>": 1, "<eos>": 2, "<unk>": 3, "a": 4}
    bare = Tokenizer(tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>")).to_str())
    base = tiny_base(tmp_path / "base", bare)
    given = sections_of(tmp_path, arms=(name.format(base),), budgets=("40",), seeds=2)
    check(tmp_path / "texts", given)
    for role in ("train", "test"):
        rows = [json.loads(line) for line in Path(given["data"][role]).read_text(encoding="utf-8").splitlines()]
        write_rows(Path(given["data"][role]), [row | {"second": f"{role} {row['text']}"} for row in rows])
    given["data"]["text_pair_column"] = "second"
    check(tmp_path / "pairs", given)  # each text of a pair is a sequence of its own
    given["head"] = {"pair_encoding": "joined"}
    with pytest.raises(SettingError, match=r"two texts in one sequence need a separator such as <sep>, .* of .*base"):
        check(tmp_path / "joined", given)
    given["study"]["arms"] = (f"linear:{name.format(base)}",)
    check(tmp_path / "vectors", given)  # it reads each text of a pair alone


def test_budgets_that_cannot_be_calibrated_are_one_error_before_the_start(tmp_path: Path) -> None:
    given = sections_of(tmp_path, arms=("scratch",), budgets=("40", "60", "220"), seeds=2)
    given["finetune"]["calibrate"] = True
    sentence = r"budgets below 200 labels have none \(here: 40, 60\)\. Leave --finetune.calibrate out"
    with pytest.raises(SettingError, match=sentence):
        run_study(out=tmp_path / "out", sections=given)
    assert not (tmp_path / "out").exists()


def test_a_folder_with_a_study_of_other_data_or_another_task_is_not_continued(tmp_path: Path) -> None:
    def sections(seed: int, **study: Any) -> dict[str, Any]:
        given = sections_of(tmp_path / str(seed), arms=("majority",), budgets=("40",), seeds=1, corpus=(), **study)
        for name in ("train", "test"):
            write_unique(Path(given["data"][name]), 60, seed=2 * seed + (name == "test"))
        return given

    out, first, other = tmp_path / "out", sections(1), sections(2)
    run_study(out=out, sections=first)
    before = snapshot(out)
    with pytest.raises(SettingError, match=r"of another training set and another test set\. Choose"):
        run_study(out=out, sections=other)
    numbers = task_sections(tmp_path / "regress", "regress", arms=("mean",), budgets=("40",), seeds=1)
    with pytest.raises(SettingError, match=r"holds a study of the task classify\. Choose another folder"):
        run_study(out=out, sections=numbers)
    assert snapshot(out) == before
    first["data"] |= {"test": other["data"]["test"]}  # a test set that was mended
    assert not run_study(out=out, sections=first).outcome.failed
    assert not run_study(out=out, sections=other, overwrite=True).outcome.failed
