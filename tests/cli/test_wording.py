"""Errors of the command line are sentences that name flags."""

from pathlib import Path

import pytest

from cli_calls import call_wrong
from headswap.cli.wording import with_flags


def test_unknown_verb_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert "'pretrian' is not a command. Did you mean 'pretrain'?" in call_wrong(capsys, "pretrian")


def test_unknown_flag_gets_a_suggestion(capsys: pytest.CaptureFixture[str], shared: Path) -> None:
    err = call_wrong(capsys, "pretrain", shared / "corpus.txt", "--out", "x", "--learning-rat", "1")
    assert "Did you mean --learning-rate? See headswap pretrain --help." in err


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        ("pretrain a.txt --n_layer 3", "--n_layer. Did you mean --num-hidden-layers?"),
        ("pretrain a.txt --lr=3", "--lr. Did you mean --learning-rate?"),
        ("pretrain a.txt --no-lowercas", "--no-lowercas. Did you mean --no-lowercase?"),
        ("finetune --output-dir x", "--output-dir. Did you mean --out? --out is missing."),
        ("generate m p --max-tokens 3", "--max-tokens. Did you mean --max-new-tokens?"),
        ("study --workers 3", "--workers. Did you mean --jobs?"),
        ("study --finetune.lr 3", "--finetune.lr. In a study the flag is --finetune.learning-rate."),
        ("study --pretrain.batchsize 3", "--pretrain.batchsize. Did you mean --pretrain.batch-size?"),
        ("study --finetune.foo 3", "--finetune.foo. See headswap study --help."),
        ("study --dry-run", "--dry-run. See headswap study --help."),
        ("finetune b -lr 3", "-lr. Did you mean --learning-rate? --out is missing."),
        ("finetune b --data.train x --out y", "--data.train. Did you mean --train?"),
        ("finetune b --train x --training.lr 3 --out y", "--training.lr. Did you mean --learning-rate?"),
        ("adapt a b --model x --out y", "--model. See headswap adapt --help."),
    ],
)
def test_a_flag_of_another_tool_gets_ours_and_a_far_one_gets_no_suggestion(
    capsys: pytest.CaptureFixture[str], command: str, meant: str
) -> None:
    assert f"Unknown option: {meant}" in call_wrong(capsys, *command.split())


@pytest.mark.parametrize(
    ("command", "flag"),
    [("finetune b --train a.csv --out", "--out"), ("estimate --tokens", "--tokens"),
     ("finetune --seed=3 --no-calibrate --train -- --lr", "--train")],
)  # fmt: skip
def test_a_flag_without_its_value_is_not_called_unknown(
    capsys: pytest.CaptureFixture[str], command: str, flag: str
) -> None:
    said = call_wrong(capsys, *command.split())
    assert f"{flag} needs a value." in said
    assert "Unknown option" not in said


def test_known_flags_beside_a_missing_one_are_not_called_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    said = call_wrong(
        capsys, *["finetune", "b", "--train=a.csv", "--no-calibrate", "--learning-rate", "1", "--bs", "3"]
    )
    assert said.count("Unknown option") == 1
    assert "--bs. Did you mean --batch-size? --out is missing." in said


@pytest.mark.parametrize("flag", ["--no-lr", "--no-fp16"])
def test_no_before_a_name_of_another_tool_is_not_taken_for_a_similar_flag(
    capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    assert f"Unknown option: {flag}. " in call_wrong(capsys, "finetune", "b", "--train=a.csv", "--out=o", flag)


@pytest.mark.parametrize(("field", "flags"), [("epochs", "num-train-epochs"), ("max-steps", "max-steps")])
def test_a_flag_of_a_training_has_a_prefix_in_a_study(
    capsys: pytest.CaptureFixture[str], field: str, flags: str
) -> None:
    expected = f"the flag is --pretrain.{flags} or --adapt.{flags} or --finetune.{flags}."
    assert expected in call_wrong(capsys, "study", f"--{field}", "3")


@pytest.mark.parametrize(
    ("flag", "value"), [("--max-steps", "0"), ("--max-steps", "many"), ("--preset", "huge"), ("--learning-rate", "-1")]
)
def test_wrong_value_is_reported_with_its_flag(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path, flag: str, value: str
) -> None:
    err = call_wrong(capsys, "pretrain", shared / "corpus.txt", "--out", tmp_path / "run", flag, value)
    assert flag in err
    assert value in err
    assert not (tmp_path / "run").exists()


def test_missing_flag_or_value_is_reported(capsys: pytest.CaptureFixture[str], shared: Path) -> None:
    assert "--out is missing" in call_wrong(capsys, "pretrain", shared / "corpus.txt")
    assert "--out needs a value" in call_wrong(capsys, "pretrain", shared / "corpus.txt", "--out")


def test_error_in_a_recipe_keeps_the_names_of_the_recipe(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text("[training]\nlearning_rat = 1\n")
    err = call_wrong(capsys, "pretrain", "x.txt", "--out", tmp_path / "run", "--config", tmp_path / "recipe.toml")
    assert "training.learning_rat is not a setting" in err
    assert "Did you mean 'learning_rate'?" in err


SETTINGS = {"top_k", "max_steps", "max_minutes", "kind", "lowercase", "documents", "train", "pretrain.max_steps"}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("top_k needs a temperature.", "--top-k needs a temperature."),
        ("max_steps and max_minutes exclude each other.", "--max-steps and --max-minutes exclude each other."),
        ("kind, lowercase cannot be set: why.", "--kind, --lowercase cannot be set: why."),
        ("documents = 'x' is not allowed: it should be line.", "--documents 'x' is not allowed: it should be line."),
        ("pretrain.max_steps = 0 is not allowed.", "--pretrain.max-steps 0 is not allowed."),
        ("max_steps = 0 is not allowed (a/recipe.toml): why.", "max_steps = 0 is not allowed (a/recipe.toml): why."),
        ("runs/a/config.json: max_steps is missing.", "runs/a/config.json: max_steps is missing."),
        ("training.max_steps is not a setting.", "training.max_steps is not a setting."),
        ("a/max_steps.txt and 'max_steps' stay, train too.", "a/max_steps.txt and 'max_steps' stay, train too."),
        ("train does not exist.", "train does not exist."),
        ("One line.\nmax_minutes is 3.", "One line.\n--max-minutes is 3."),
    ],
)
def test_settings_are_named_as_flags(message: str, expected: str) -> None:
    assert with_flags(message, SETTINGS) == expected


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("generate", "b", "x", "--top-k", "5"), "--top-k and --top-p need a temperature above 0"),
        (("finetune", "--out", "x", "--trainable", "al"), "--trainable 'al' is not allowed"),
        (("study", "movies", "--out", "x", "--pretrain.max-steps", "0"), "--pretrain.max-steps '0' is not allowed"),
        (("study", "movies", "--out", "x", "--budgets", "1"), "--budgets holds '1'"),
        (("pretrain", "--out", "x", "--max-steps=0", "--batch-size=0"), "--batch-size '0' is not allowed"),
        (("evaluate", "only-one"), "The argument DATA is missing. See headswap evaluate --help."),
    ],
)
def test_errors_of_verbs_name_flags(capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], words: str) -> None:
    assert words in call_wrong(capsys, *argv)
