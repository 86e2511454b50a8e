"""More cases of the catalogue of malformed inputs: huge numbers, deep nesting, wrong types, paths that lead nowhere."""

import json
import os
from pathlib import Path
from typing import Any

from reliability.bad_inputs import (
    CASES,
    RESTORE,
    SHAPE,
    Good,
    argv,
    case,
    corpus,
    damaged_bundle,
    damaged_run,
    damaged_store,
    edit_json,
    labelled,
    recipe,
    setting,
)

__all__ = ["CASES"]
DIGITS, DEEP = "9" * 5000, "[" * 100_000 + "]" * 100_000


def put_first(file: Path, value: str) -> None:
    """Add an entry with this value to a JSON object."""
    file.write_text('{"extra": ' + value + ", " + file.read_text().lstrip()[1:])


# Huge numbers and deep nesting

for _name, _value, _says in (("a huge number", DIGITS, "number of 5,000 digits"), ("deep nesting", DEEP, "too deeply")):

    def _bundle(file: str, value: str) -> Any:
        return lambda bundle: put_first(bundle / file, value)

    for _file in ("config.json", "tokenizer.json"):
        damaged_bundle(f"{_name} in {_file}", f"bundle/{_file} is not valid JSON", _says)(_bundle(_file, _value))
    damaged_store(f"{_name} in store.json", "store/store.json is not valid JSON", _says)(
        lambda store, value=_value: put_first(store / "store.json", value)
    )
    damaged_run(f"{_name} in data.json", "unfinished/data.json is not valid JSON", _says, RESTORE)(
        lambda run, value=_value: put_first(run / "data.json", value)
    )
    labelled(f"{_name} in a row", "train.jsonl", '{"text": "a", "label": ' + _value + "}\n", "train.jsonl, line 1",
             "too many digits" if _value is DIGITS else "nested too deeply")  # fmt: skip
    corpus(f"{_name} in a corpus", "corpus.jsonl", '{"text": "a", "n": ' + _value + "}\n", "corpus.jsonl, line 1",
           "too many digits" if _value is DIGITS else "nested too deeply")  # fmt: skip
    labelled(f"{_name} in SQuAD", "train.json", '{"data": ' + _value + "}", "train.json is not valid JSON", _says,
             flags=("--task=span",))  # fmt: skip
recipe("a recipe with a huge number", f"[training]\nmax_steps = {DIGITS}\n", "recipe.toml is not valid TOML", "digits")
recipe("a recipe that is nested deeply", f"[training]\nmax_steps = {DEEP}\n", "recipe.toml", "nested too deeply")
recipe("a recipe with true as number", "[training]\nmax_steps = true\n", "max_steps = true is not allowed",
       "(recipe.toml)")  # fmt: skip
recipe("a recipe with false as number", "[training]\nlearning_rate = false\n", "learning_rate = false", "(recipe.toml)")
setting("a huge number of epochs", "--num-train-epochs=1e300", "--num-train-epochs", "less than or equal to 1000000")
setting("a huge number of minutes", "--max-minutes=1e300", "--max-minutes", "less than or equal to")
setting("a huge number of steps", f"--max-steps={10**40}", "--max-steps", "less than or equal to")
setting("a huge number of tokens", f"--max-tokens={10**40}", "--max-tokens", "less than or equal to")
setting("a huge warm-up", "--warmup-steps=1e300", "--warmup-steps", "less than or equal to")
setting("a huge seed", f"--seed={10**40}", "--seed", "less than")
setting("a huge width", f"--hidden-size={10**40}", "--hidden-size", "less than or equal to")
setting("a huge number of layers", f"--num-hidden-layers={10**40}", "--num-hidden-layers", "less than or equal to")
setting("a huge length", f"--max-length={10**40}", "--max-length", "less than or equal to")
argv("a study with a million seeds", "study", "--corpus=corpus.txt", "--train=train.csv", "--test=train.csv",
     "--out=out", "--seeds=1000000", files="corpus.txt train.csv",
     says=("--seeds", "less than or equal to 1000"))  # fmt: skip
argv("a study with a budget of many digits", "study", "--corpus=corpus.txt", "--train=train.csv", "--test=train.csv",
     "--out=out", f"--budgets={DIGITS}", files="corpus.txt train.csv", says=("--budgets holds",))  # fmt: skip


# Wrong types in a bundle


def edit_unlisted(bundle: Path, **changes: Any) -> None:
    """Change the config of a bundle without a manifest, which would show the change first."""
    (bundle / "manifest.json").unlink()
    edit_json(bundle / "config.json", **changes)


for _name in ("masking", "card"):
    for _wrong in (3, "x", [1], True):
        damaged_bundle(f"bundle with {_wrong!r} as {_name}", f"bundle/config.json: {_name} is not an object", RESTORE)(
            lambda bundle, name=_name, value=_wrong: edit_json(bundle / "config.json", **{name: value})
        )
for _wrong in (3, [1], {"a": 1}):
    damaged_bundle(f"bundle with {_wrong!r} as objective", "bundle/config.json: objective is not a text", RESTORE)(
        lambda bundle, value=_wrong: edit_json(bundle / "config.json", objective=value)
    )
damaged_bundle("bundle with a text as tokens read", "bundle/config.json: 'tokens read' of the card is not a number")(
    lambda bundle: edit_json(bundle / "config.json", card={"tokens read": "many"})
)
for _task in ("tag", "span", "regress"):
    damaged_bundle(f"classifier with the task {_task}", "which does not fit its task " + _task, RESTORE)(
        lambda bundle, task=_task: edit_unlisted(bundle, task={"task": task})
    )


@case("base with an unknown objective", "The objective 'backwards' is unknown", "'causal'")
def _(folder: Path, good: Good) -> list[str]:
    edit_unlisted(good.copy("base", folder), objective="backwards")
    good.copy("corpus.txt", folder)
    return ["evaluate", "base", "corpus.txt"]


@case("a finished run without its bundle", "run is a finished run, but its bundle is missing", "--overwrite")
def _(folder: Path, good: Good) -> list[str]:
    run = folder / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "result.json").write_text("{}", encoding="utf-8")
    return ["predict", "run", "a text"]


def with_id(file: Path, id: int) -> None:
    """Give the last entry of a vocabulary another id."""
    content = json.loads(file.read_text())
    vocabulary = content["model"]["vocab"]
    vocabulary[max(vocabulary, key=vocabulary.__getitem__)] = id
    file.write_text(json.dumps(content))


@case("a tokenizer with an id far beyond its entries", "tok.json has the id 4,000,000", "without gaps")
def _(folder: Path, good: Good) -> list[str]:
    good.copy("store", folder).joinpath("tokenizer.json").rename(folder / "tok.json")
    with_id(folder / "tok.json", 4_000_000)
    good.copy("corpus.txt", folder)
    return ["pretrain", "corpus.txt", "--tokenizer=tok.json", "--out=out", *SHAPE]


@case("a bundle whose tokenizer has ids beyond its model", "tokenizer.json has ids up to 400", "knows only 353 tokens")
def _(folder: Path, good: Good) -> list[str]:
    from headswap.tokens.tokenizer import Tokenizer

    bundle = good.copy("bundle", folder)
    with_id(bundle / "tokenizer.json", 400)
    edit_json(bundle / "config.json", tokenizer_fingerprint=Tokenizer.load(bundle).fingerprint)
    return ["predict", "bundle", "a text"]


# Paths

argv("an empty name as output", "pretrain", "corpus.txt", "--out", "", files="corpus.txt",
     says=("--out is empty. Give a name.",))  # fmt: skip
for _verb, *_words in (
    ("pretrain", "~nosuchuser/a.txt", "--out=out"),
    ("finetune", "--base=scratch", "--train=~nosuchuser/a.csv", "--out=out"),
    ("finetune", "--base=~nosuchuser/a", "--train=train.csv", "--out=out"),
    ("predict", "~nosuchuser/a", "a text"),
    ("predict", "bundle", "--file=~nosuchuser/a.txt"),
    ("study", "--train=~nosuchuser/a.csv", "--test=train.csv", "--arms=majority", "--out=out"),
    ("study", "--train=train.csv", "--test=train.csv", "--arms=~nosuchuser/a", "--out=out"),
):
    argv(f"the home of an unknown user, {_verb} {_words[0]} {_words[-1]}", _verb, *_words, files="bundle train.csv",
         says=("~nosuchuser/a",))  # fmt: skip


def link_loop(name: str, *words: str, says: str) -> None:
    """Add a command on a link that leads to itself."""

    def make(folder: Path, good: Good) -> list[str]:
        os.symlink("loop", folder / "loop")
        for file in ("corpus.txt", "train.csv", "bundle"):
            good.copy(file, folder)
        return list(words)

    case(f"a link loop as {name}", says)(make)


link_loop("corpus", "pretrain", "loop", "--out=out", says="loop is a symbolic link to loop")
link_loop("folder of a corpus", "pretrain", "loop/a.txt", "--out=out", says="loop/a.txt does not exist")
link_loop("training set", "finetune", "--base=scratch", "--train=loop", "--out=out", says="loop is a symbolic link")
link_loop("bundle", "predict", "loop", "a text", says="loop is a symbolic link to loop")
link_loop("output", "pretrain", "corpus.txt", "--out=loop", *SHAPE, says="loop: Too many levels of symbolic links.")
link_loop("study", "study", "--train=train.csv", "--test=train.csv", "--arms=majority", "--out=loop",
          says="loop")  # fmt: skip
