"""Labelled sets of every task, drawn from small grammars with known labels, and untrained models for them.

`python tests/task_data.py FOLDER` writes them as files: what the commands of docs/tasks.md run on.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headswap.bundle.bundle import Bundle
from headswap.bundle.task_state import TaskState
from headswap.core.random_streams import numpy_stream
from headswap.data.config import ColumnSettings
from headswap.data.records import Answer, Example, SpanExample, TaggedExample
from headswap.model.text_model import build_model
from headswap.tasks.choose import named_task
from headswap.tokens.tokenizer import Tokenizer
from tiny import BAD, GOOD, NOUNS, sentences, tiny_model_shape

FIRST = ["anna", "bela", "carl", "dora", "emil", "jordan", "paris"]
LAST = ["stone", "river", "brook", "field"]
PLACES = ["oslo", "new york", "rome", "jordan", "paris", "port louis"]
GAMES = ["chess", "table tennis", "go"]


def tagged(count: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """Persons and places; jordan and paris can be both, so a model has to use the context."""
    stream = numpy_stream(seed, "test tags")
    rows = []
    for _ in range(count):
        tokens: list[str] = []
        tags: list[str] = []

        def say(text: str, kind: str | None = None, tokens: list[str] = tokens, tags: list[str] = tags) -> None:
            words = text.split()
            tokens += words
            tags += ["O"] * len(words) if kind is None else [f"B-{kind}", *[f"I-{kind}"] * (len(words) - 1)]

        person = str(stream.choice(FIRST)) + (f" {stream.choice(LAST)}" if stream.random() < 0.5 else "")
        if stream.random() < 0.5:
            say("the")
            say(str(stream.choice(NOUNS)))
            say("of")
        say("mr")
        say(person, "PER")
        say(str(stream.choice(["lived in", "flew to", "came from"])))
        say(str(stream.choice(PLACES)), "LOC")
        say(".")
        rows.append({"tokens": tokens, "tags": tags})
    return rows


def questions(count: int, *, seed: int = 0, unanswerable: float = 0.0, padding: int = 0) -> list[dict[str, Any]]:
    """Questions where someone lives; the context also names a former home. `padding` sentences make it longer."""
    stream = numpy_stream(seed, "test questions")
    rows = []
    for _ in range(count):
        name, home, former = stream.choice(FIRST[:5]), *map(str, stream.choice(PLACES, 2, replace=False))
        facts = [f"{name} left {former} .", f"{name} plays {stream.choice(GAMES)} ."]
        facts += [f"the {stream.choice(NOUNS)} was {stream.choice(GOOD)} ." for _ in range(padding)]
        has_answer = stream.random() >= unanswerable
        if has_answer:
            facts.append(f"{name} lives in {home} .")
        context = " ".join(stream.permutation(facts).tolist())
        start = context.index(f"lives in {home}") + len("lives in ") if has_answer else 0
        answers = {"text": [home], "answer_start": [start]} if has_answer else {"text": [], "answer_start": []}
        rows.append({"question": f"where does {name} live ?", "context": context, "answers": answers})
    return rows


def multilabelled(count: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """Texts that praise some things and criticise others; the labels are the praised things."""
    stream = numpy_stream(seed, "test labels")
    rows = []
    for _ in range(count):
        nouns = stream.choice(NOUNS[:4], int(stream.integers(1, 4)), replace=False)
        is_good = stream.random(len(nouns)) < 0.6
        clauses = [
            f"the {noun} was {stream.choice(GOOD if good else BAD)}" for noun, good in zip(nouns, is_good, strict=True)
        ]
        labels = sorted(str(noun) for noun, good in zip(nouns, is_good, strict=True) if good)
        rows.append({"text": " and ".join(clauses) + " .", "label": labels})
    return rows


def valued(count: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """Prices: 50 more for every good word, 20 less for every bad one."""
    stream = numpy_stream(seed, "test values")
    rows = []
    for _ in range(count):
        good, bad = (int(number) for number in stream.integers(0, 4, 2))
        words = stream.permutation([*stream.choice(GOOD, good), *stream.choice(BAD, bad), "film"])
        rows.append({"text": " ".join(words.tolist()), "label": 1000.0 + 50 * good - 20 * bad})
    return rows


def paired(count: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """Two sentences, each positive or negative; the label is that of the second, so a model has to separate them."""
    first, second = sentences(2 * count, seed=seed), sentences(2 * count, seed=seed + 1_000)
    order = numpy_stream(seed, "test pairs").permutation(2 * count)[:count]
    pairs = [(first[number][0], *second[int(other)]) for number, other in enumerate(order)]
    return [{"text": text, "text_pair": pair, "label": label} for text, pair, label in pairs]


def classified(count: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """The small grammar of tiny.py."""
    return [{"text": text, "label": label} for text, label in sentences(count, seed=seed)]


ROWS = {"classify": classified, "multilabel": multilabelled, "regress": valued, "tag": tagged, "span": questions}
INPUTS = {
    "classify": ["the film was superb .", "the film was dull ."],
    "multilabel": ["the film was fine and the story was dull .", "the actor was awful ."],
    "regress": ["film superb fine", "film dull grey"],
    "tag": ["mr jordan stone flew to jordan .", ["mr", "anna", "lived", "in", "new", "york", "."]],
    "span": [("where does anna live ?", "anna left rome . anna lives in port louis .")],
}


LABELS = {
    "classify": ("neg", "pos"),
    "multilabel": ("actor", "film", "scene", "story"),
    "regress": ("value",),
    "tag": ("B-LOC", "B-PER", "I-LOC", "I-PER", "O"),
    "span": ("start", "end"),
}


def tiny_bundle(
    tokenizer: Tokenizer, task: str, *, preset: str = "small", head: str | None = None, **state: Any
) -> Bundle:
    """An untrained model of a task, with its head or another one."""
    shape = tiny_model_shape(preset, head=head or named_task(task).head, vocab_size=tokenizer.vocab_size)
    model = build_model(shape.changed(num_labels=len(LABELS[task])), seed=3)
    return Bundle(model, tokenizer, LABELS[task], task=TaskState(task=task, **state))


def examples_of(task: str, count: int, **given: Any) -> list[Any]:
    """Rows of a grammar as examples."""
    rows = ROWS[task](count, **given)
    if task == "tag":
        return [TaggedExample(tuple(r["tokens"]), tuple(r["tags"]), "x", n) for n, r in enumerate(rows)]
    if task == "span":
        return [
            SpanExample(
                row["question"],
                row["context"],
                tuple(map(Answer, row["answers"]["text"], row["answers"]["answer_start"])),
                "x",
                n,
            )
            for n, row in enumerate(rows)
        ]
    parse = named_task(task).parse(ColumnSettings())
    parsed = [parse(row["label"]) for row in rows]
    return [
        Example(row["text"], own.label, "x", n, None, own.labels, own.value)
        for n, (row, own) in enumerate(zip(rows, parsed, strict=True))
    ]


def write_rows(file: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """A JSONL file."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def assert_close(found: Any, expected: Any) -> None:
    """Equal except for the last digits of numbers: the memory layout of tensors can change the order of sums."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            assert_close(found[name], expected[name])
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)
    else:
        assert found == (pytest.approx(expected, rel=1e-5, abs=1e-6) if isinstance(expected, float) else expected)


def main(folder: Path) -> None:
    """A training and a test set of every task."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in {**ROWS, "pair": paired}.items():
        write_rows(folder / f"{name}-train.jsonl", rows(800, seed=1))
        write_rows(folder / f"{name}-test.jsonl", rows(200, seed=2))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
