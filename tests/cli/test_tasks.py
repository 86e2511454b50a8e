"""All tasks on the command line: finetune, evaluate, predict, and wrong use."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

import headswap as hs
from headswap.cli.exit_codes import run
from reloading import reload_here
from task_data import ROWS, assert_close, paired, questions, tagged, write_rows

MACHINE = ["--device=cpu", "--threads=1"]
TINY = [
    "--base=scratch", "--hidden-size=32", "--num-hidden-layers=1", "--num-attention-heads=2", "--intermediate-size=32",
    "--kind=word", "--direction=bidirectional", "--max-length=40", "--learning-rate=0.01", "--num-train-epochs=3",
    "--dropout=0", *MACHINE,
]  # fmt: skip


def call(capsys: pytest.CaptureFixture[str], *argv: object, code: int = 0) -> str:
    """Standard output of a command, or standard error of one that must be refused."""
    found = run([str(part) for part in argv])
    out, err = capsys.readouterr()
    assert found == code, err
    return err if code else out


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger, a question answerer, a classifier of text pairs and a multi-label classifier."""
    folder = tmp_path_factory.mktemp("tasks")
    settings: dict[str, Any] = {
        "base": "scratch", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 48, "kind": "word", "direction": "bidirectional", "max_length": 40, "dropout": 0.0,
        "learning_rate": 5e-3, "num_train_epochs": 6, "device": "cpu", "threads": 1,
    }  # fmt: skip
    files = {
        name: write_rows(folder / f"{name}.jsonl", ROWS[name](400, seed=1)) for name in ("tag", "span", "multilabel")
    }
    files["pair"] = write_rows(folder / "pair.jsonl", paired(400, seed=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
        reload_here(patch)
        for name, file in files.items():
            extra = {"text_pair_column": "text_pair"} if name == "pair" else {}
            hs.finetune(train=file, out=folder / name, **settings, **extra)
    return folder


@pytest.mark.parametrize("task", ROWS)
def test_finetune_and_evaluate_print_the_metrics_of_the_task(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, task: str
) -> None:
    train = write_rows(tmp_path / "train.jsonl", ROWS[task](60, seed=1))
    test = write_rows(tmp_path / "test.jsonl", ROWS[task](30, seed=2))
    given = ["finetune", "--train", train, "--test", test, "--task", task, "--out", tmp_path / "run", *TINY]
    table = call(capsys, *given)
    measures = {"classify": "accuracy", "multilabel": "micro-F1", "regress": "MSE", "tag": "F1", "span": "F1"}
    header, *rows = [line.split("\t") for line in table.splitlines()]
    assert header[:3] == ["model", measures[task], "95 % interval (test sample)"]
    assert rows[0][0] == "headswap (scratch)"
    assert len(rows) >= 2, "a baseline is always in the table"
    low, high = map(float, rows[0][2].split(" to "))
    assert low <= float(rows[0][1]) <= high
    result = json.loads(call(capsys, *given, "--resume", "--json"))
    assert result["task"] == task
    assert set(result["baselines"]) == {row[0] for row in rows[1:] if row[0] in result["baselines"]}
    scored = call(capsys, "evaluate", tmp_path / "run", test, *MACHINE)
    assert measures[task] in scored
    assert "share of tokens cut off" in scored
    found = json.loads(call(capsys, "evaluate", tmp_path / "run", test, *MACHINE, "--json"))
    assert_close(found, result["test"])


def test_a_tagger_reads_raw_text_words_and_conll(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "mr anna stone lived in new york ."
    said = json.loads(call(capsys, "predict", shared / "tag", text, "--json"))
    assert said["tokens"] == text.split()
    assert [(entity["type"], entity["text"]) for entity in said["entities"]] == [
        ("PER", "anna stone"),
        ("LOC", "new york"),
    ]
    assert len(said["tags"]) == len(said["scores"]) == 8
    plain = call(capsys, "predict", shared / "tag", text)
    assert plain.splitlines()[1] == "anna\tB-PER"
    (tmp_path / "a.conll").write_text(plain)
    assert json.loads(call(capsys, "predict", shared / "tag", "--file", tmp_path / "a.conll", "--json")) == said
    write_rows(tmp_path / "a.jsonl", [{"words": text.split(), "text": text}])
    rows = call(capsys, "predict", shared / "tag", "--file", tmp_path / "a.jsonl", "--tokens-column", "words", "--json")
    assert json.loads(rows) == said
    raw = call(capsys, "predict", shared / "tag", "--file", tmp_path / "a.jsonl", "--text-column", "text", "--json")
    assert json.loads(raw) == said
    monkeypatch.setattr("sys.stdin", io.StringIO(text + "\n"))
    assert json.loads(call(capsys, "predict", shared / "tag", "--json")) == said


def test_a_question_answerer_reads_a_question_and_contexts(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    contexts = ["anna left rome . anna lives in oslo .", "anna lives in port louis . anna plays go ."]
    said = call(capsys, "predict", shared / "span", *contexts, "--question", "where does anna live ?", "--json")
    answers = [json.loads(line) for line in said.splitlines()]
    assert [answer["answer"] for answer in answers] == ["oslo", "port louis"]
    assert all(c[a["start"] : a["end"]] == a["answer"] for c, a in zip(contexts, answers, strict=True))
    rows = [{"q": "where does anna live ?", "context": context} for context in contexts]
    write_rows(tmp_path / "q.jsonl", rows)
    from_file = call(
        capsys, "predict", shared / "span", "--file", tmp_path / "q.jsonl", "--question-column", "q", "--json"
    )
    assert from_file == said
    assert "oslo\t31-35\t" in call(capsys, "predict", shared / "span", contexts[0], "--question", "where ?")


def test_text_pairs_are_read_from_arguments_or_a_file(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    good, bad = "the film was superb .", "the story was awful ."
    one = call(capsys, "predict", shared / "pair", bad, good, "--text-pair", good, "--json")
    write_rows(tmp_path / "p.jsonl", [{"text": text, "text_pair": good} for text in (bad, good)])
    assert call(capsys, "predict", shared / "pair", "--file", tmp_path / "p.jsonl", "--json") == one
    said = call(capsys, "evaluate", shared / "pair", shared / "pair.jsonl", *MACHINE, code=2)
    assert "This model reads pairs of texts. Pass --text-pair-column" in said
    found = call(
        capsys,
        "evaluate",
        shared / "pair",
        shared / "pair.jsonl",
        "--text-pair-column",
        "text_pair",
        "--json",
        *MACHINE,
    )
    assert json.loads(found)["num_examples"] == 400


def test_labels_are_printed_with_their_scores(capsys: pytest.CaptureFixture[str], shared: Path) -> None:
    said = json.loads(call(capsys, "predict", shared / "multilabel", "the film was fine .", "--json"))
    assert said["labels"] == ["film"]
    assert set(said["scores"]) == {"actor", "film", "scene", "story"}
    assert call(capsys, "predict", shared / "multilabel", "the film was fine .").startswith("film\t0.")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("predict", "tag", "a", "--question", "b"), "--question cannot be used: this model does not read it."),
        (("predict", "multilabel", "a", "--text-pair", "b"), "--text-pair cannot be used"),
        (("predict", "span", "a context"), "This model reads questions about a context. Pass TEXT and --question"),
        (("predict", "pair", "-", "--text-pair", "b"), "- is standard input, which has no text-pair. Pass --file"),
        (("predict", "pair", "a"), "This model reads pairs of texts. Pass TEXT and --text-pair"),
        (("predict", "span", "c", "--question", "q", "--file", "span.jsonl"), "are both given"),
        (("predict", "tag", "--file", "tag.jsonl", "--question-column", "x"), "--question-column cannot be used"),
        (("evaluate", "tag", "tag.jsonl", "--label-column", "x"), "--label-column cannot be set: the task tag"),
        (("evaluate", "tag", "tag.jsonl", "--documents", "file"), "--documents cannot be used: the model is a tag"),
        (("generate", "tag", "text"), "headswap predict"),
    ],
)  # fmt: skip
def test_flags_without_effect_are_refused(
    capsys: pytest.CaptureFixture[str], shared: Path, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(shared)
    assert words in call(capsys, *argv, code=2)


def test_a_squad_file_is_a_span_task(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    paragraphs = [
        {
            "context": row["context"],
            "qas": [
                {
                    "id": str(number),
                    "question": row["question"],
                    "answers": [{"text": row["answers"]["text"][0], "answer_start": row["answers"]["answer_start"][0]}],
                }
            ],
        }
        for number, row in enumerate(questions(40))
    ]
    (tmp_path / "squad.json").write_text(json.dumps({"version": "1.1", "data": [{"paragraphs": paragraphs}]}))
    given = ["finetune", "--train", tmp_path / "squad.json", "--out", tmp_path / "run", *TINY, "--json"]
    assert json.loads(call(capsys, *given))["task"] == "span"
    assert json.loads(call(capsys, "params", tmp_path / "run", "--json"))["parts"][-1] == {
        "name": "head", "formula": "C*D + C = 2*32 + 2", "count": 66,
    }  # fmt: skip


def test_conll_columns_can_be_chosen(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lines = [
        "".join(f"{number}\t{word}\t{tag}\tx\n" for number, (word, tag) in enumerate(zip(*row.values(), strict=True)))
        for row in tagged(40)
    ]
    (tmp_path / "a.conll").write_text("\n".join(lines))
    columns = ["--conll-word-column", 2, "--conll-tag-column", 3]
    given = ["finetune", "--train", tmp_path / "a.conll", *columns, "--out", tmp_path / "run", *TINY, "--json"]
    call(capsys, *given)
    assert hs.load(tmp_path / "run").bundle.labels == ("B-LOC", "B-PER", "I-LOC", "I-PER", "O")


def test_finetuning_on_pairs_ends_with_an_example_command_for_pairs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    train = write_rows(tmp_path / "train.jsonl", paired(60, seed=1))
    given = ["finetune", "--train", train, "--text-pair-column=text_pair", "--out", tmp_path / "run", *TINY]
    assert run([str(part) for part in given]) == 0
    place = tmp_path / "run"
    assert f"headswap predict {place} 'first text' --text-pair 'second text'" in capsys.readouterr().err
