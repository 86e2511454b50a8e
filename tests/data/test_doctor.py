"""The data doctor: descriptions, issues between sets, and the verb."""

import json
from pathlib import Path
from typing import Any

import pytest

from doctor_data import clean, found
from headswap.cli.exit_codes import run
from headswap.core.errors import InputError
from headswap.data.checks import cheap_issues
from headswap.data.doctor import describe, examine_data
from headswap.data.records import Answer, Document, Example, SpanExample, TaggedExample
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.tokenizer import Tokenizer
from headswap.tokens.train_tokenizer import train_tokenizer
from task_data import questions, tagged, write_rows


def test_a_clean_set_has_no_issues() -> None:
    assert cheap_issues("train", clean(200), is_train=True) == []
    diagnosis = examine_data(None, {"train": clean(150), "test": clean(60, start=300)})
    assert diagnosis.problems == []


def answered(number: int, answer: str) -> SpanExample:
    return SpanExample(f"question {number}", f"a context {number}", (Answer(answer, 0),), "set.jsonl", number + 1)


def test_answers_are_not_taken_for_classes() -> None:
    """Few answers, sorted, some of them rare, one predicted by a word: as labels they would have issues."""
    examples = [answered(number, ["oslo", "rome", "paris"][number // 20]) for number in range(58)]
    examples += [answered(2, "rome"), answered(60, "a secret")]
    assert cheap_issues("train", examples, is_train=True) == []
    one = describe((example.text for example in examples), examples)
    assert "labels" not in one.as_json()
    diagnosis = examine_data(
        None, {"train": examples}, labels_of=lambda _: ("start", "end"), check=lambda *_, **__: None
    )
    assert not any(word in json.dumps(diagnosis.as_json()) for word in ("oslo", "rome", "secret"))


def test_tags_are_counted_one_by_one_and_a_sequence_of_them_is_no_class() -> None:
    tags = [("B-PER", "O"), ("O", "O")]
    examples = [
        TaggedExample((f"word{number}", "walks"), tags[number // 25], "set.jsonl", number + 1) for number in range(50)
    ]
    assert cheap_issues("train", examples, is_train=True) == []
    assert describe((one.text for one in examples), examples).as_json()["tags"] == {"B-PER": 25, "O": 75}
    examples.append(TaggedExample(examples[3].tokens, ("O", "O"), "set.jsonl", 51))
    (issue,) = cheap_issues("train", examples, is_train=True)
    assert "1 sentence with different tags (lines 4 and 51)" in issue.message
    assert "B-PER" not in json.dumps(issue.as_json())


def test_several_labels_of_a_text_are_counted_one_by_one() -> None:
    sets = [("film",), ("story",), ("film", "story"), ()]
    examples = [
        Example(f"text number {at}", ", ".join(sets[at % 4]), "set.csv", at, labels=sets[at % 4]) for at in range(16)
    ]
    assert describe((one.text for one in examples), examples).labels == {"": 4, "film": 8, "story": 8}
    assert found(cheap_issues("train", examples, is_train=True), "label counts") == []
    examples.append(Example("text number 17", "film, rare", "set.csv", 17, labels=("film", "rare")))
    (issue,) = found(cheap_issues("train", examples, is_train=True), "label counts")
    assert "1 label with fewer than 5 texts ('rare')" in issue.message


def test_the_description_has_known_numbers(tokenizer: Tokenizer) -> None:
    examples = [Example("the film was fine", "pos", "s", 1), Example("the film was dull", "neg", "s", 2),
                Example("кино " * 6, "neg", "s", 3), Example("the film", "pos", "s", 4)]  # fmt: skip
    one = describe((example.text for example in examples), examples, tokenizer=tokenizer, max_length=4)
    counts = [len(tokenizer.encode(example.text)) for example in examples]
    assert (one.num_texts, one.num_words, one.num_tokens) == (4, 16, sum(counts))
    assert one.labels == {"neg": 2, "pos": 2}
    assert one.tokens_per_word == round(sum(counts) / 16, 4)
    assert one.truncated_tokens == round(sum(max(count + 1 - 4, 0) for count in counts) / sum(counts), 4)
    assert one.lengths["tokens_max"] == max(counts)
    assert set(one.scripts) == {"Latin", "Cyrillic"}
    assert sum(one.scripts.values()) == pytest.approx(1)


def test_a_tokenizer_of_other_text_has_more_unknown_tokens_and_tokens_per_word(tokenizer: Tokenizer) -> None:
    documents = [Document("the film was fine and the story was dull", "tests", 1)]
    words = train_tokenizer(documents, TokenizerSettings(kind="word", vocab_size=100))
    texts = [example.text for example in clean(20)]
    (issue,) = found(examine_data(lambda: texts, {}, tokenizer=words).issues, "unknown tokens")
    assert "% of the tokens are unknown" in issue.message
    assert found(
        examine_data(lambda: ["этот фильм был скучным"] * 3, {}, tokenizer=tokenizer).issues, "tokens per word"
    )


def test_every_pair_of_sets_is_compared() -> None:
    train, validation, test = clean(40), clean(40, start=100), clean(40, start=200)
    test.append(Example(train[3].text, train[3].label, "test.csv", 70))
    validation.append(Example(f"{test[5].text} today", test[5].label, "val.csv", 71))
    corpus = [*(one.text for one in clean(30, start=500)), train[0].text, test[1].text]
    diagnosis = examine_data(lambda: corpus, {"train": train, "validation": validation, "test": test})
    answer = diagnosis.as_json()["overlap"]
    counts = {
        (one["from"], one["to"]): (one["exact_rows"], one["near_rows"]) for one in answer if one["from"] != one["to"]
    }
    assert counts == {
        ("corpus", "train"): (1, 0), ("corpus", "validation"): (0, 0), ("corpus", "test"): (1, 0),
        ("train", "validation"): (0, 0), ("train", "test"): (1, 0), ("validation", "test"): (0, 1),
    }  # fmt: skip
    levels = {(one.details["from"], one.details["to"]): one.level for one in found(diagnosis.issues, "overlap")}
    assert levels == {("corpus", "train"): "note", ("corpus", "test"): "problem", ("train", "test"): "problem",
                      ("validation", "test"): "problem"}  # fmt: skip


def test_near_duplicates_inside_a_set_are_counted() -> None:
    examples = clean(30)
    examples.append(Example(examples[2].text + " today", examples[2].label, "set.csv", 80))
    (issue,) = found(examine_data(None, {"train": examples}).issues, "near duplicates")
    assert "1 of 31 texts nearly repeat an earlier one" in issue.message


def test_labels_not_in_train_and_a_single_class_are_problems() -> None:
    test = [Example("something else", "maybe", "test.csv", 9)]
    (issue,) = examine_data(None, {"train": clean(30), "test": test}).problems
    assert "test.csv, line 9: the label 'maybe' of the test set does not occur in train" in issue.message
    one_class = [Example(f"text {number}", "yes", "set.csv", number) for number in range(9)]
    assert "only one class" in examine_data(None, {"train": one_class}).problems[0].message


def test_a_set_that_cannot_be_read_is_a_problem_and_the_others_are_checked() -> None:
    diagnosis = examine_data(None, {"train": clean(30), "test": InputError("test.csv, line 3: the text is blank.")})
    (issue,) = diagnosis.problems
    assert issue.sentence() == "test: cannot be read. test.csv, line 3: the text is blank."
    assert "train" in diagnosis.sets


def test_a_corpus_too_small_for_the_base_and_its_repetitions_are_reported() -> None:
    texts = [one.text for one in clean(20)] * 2
    issues = examine_data(lambda: texts, {}, num_parameters=1_000_000).issues
    assert "20 of 40 documents repeat an earlier one" in found(issues, "duplicates")[0].message
    assert "for a base of 1,000,000 parameters" in found(issues, "corpus size")[0].message
    assert found(examine_data(lambda: texts, {}, num_parameters=100).issues, "corpus size") == []


# The verb


def write(file: Path, examples: list[Example]) -> Path:
    file.write_text("".join(json.dumps({"text": one.text, "label": one.label}) + "\n" for one in examples))
    return file


def doctor(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str]:
    code = run(["doctor", *map(str, argv)])
    return code, capsys.readouterr().out


def test_the_verb_leaves_with_1_on_problems_and_0_without(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, test = write(tmp_path / "train.jsonl", clean(80)), write(tmp_path / "test.jsonl", clean(20, start=200))
    code, out = doctor(capsys, "--train", train, "--test", test)
    assert (code, out.splitlines()[-1]) == (0, "Verdict: no problems.")
    assert "80 texts" in out
    write(test, clean(20, start=70))
    code, out = doctor(capsys, "--train", train, "--test", test)
    assert code == 1
    assert "PROBLEM  train: 10 of 80 texts also occur in test (10 exactly, 0 nearly)" in out
    assert out.splitlines()[-1] == "Verdict: 1 problem."


def test_the_json_holds_everything_and_no_text_of_the_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = write(tmp_path / "train.jsonl", [*clean(80), *clean(3)])
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(one.text for one in clean(50, start=40)))
    (tmp_path / "more.txt").write_text("a text of its own\n")
    code, out = doctor(capsys, "--train", train, "--corpus", corpus, tmp_path / "more.txt", "--json")
    answer: dict[str, Any] = json.loads(out)
    assert code == 0
    assert {"sets", "findings", "overlap", "problems", "max_length"} <= set(answer)
    assert answer["sets"]["train"]["num_texts"] == 83
    assert answer["sets"]["corpus"]["num_texts"] == 51, "both files"
    assert next(one for one in answer["overlap"] if one["from"] != one["to"])["exact_rows"] == 40
    assert "neighbour of number" not in out


@pytest.mark.parametrize(("name", "flag"), [("train.csv", "--train"), ("a.conll", "--train"), ("a.txt", "--corpus")])
def test_a_data_file_without_a_flag_is_an_error_with_the_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, flag: str
) -> None:
    (tmp_path / name).write_text("text,label\n")
    assert run(["doctor", str(tmp_path / name)]) == 2
    assert f"To check data pass {flag} {tmp_path / name}." in capsys.readouterr().err


def test_an_invalid_file_is_a_problem_of_its_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = write(tmp_path / "train.jsonl", clean(80))
    (tmp_path / "test.jsonl").write_bytes(b'{"text": "\xe9t\xe9", "label": "yes"}\n')
    code, out = doctor(capsys, "--train", train, "--test", tmp_path / "test.jsonl")
    assert code == 1
    assert "PROBLEM  test: cannot be read." in out
    assert "line 1: byte 0xE9 is not UTF-8 text" in out


def test_other_tasks_are_checked_by_their_own_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lists of labels are several labels; in a regression, a number that is not in train is valid."""
    rows = [{"text": one.text, "label": [one.label, "all"]} for one in clean(40)]
    (tmp_path / "multi.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out = doctor(capsys, "--train", tmp_path / "multi.jsonl")
    assert (code, out.splitlines()[-1]) == (0, "Verdict: no problems.")
    for name, start in (("train", 0), ("test", 100)):
        rows = [{"text": one.text, "label": number + start / 7} for number, one in enumerate(clean(30, start=start))]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_rows(tmp_path / "spans.jsonl", questions(80))
    write_rows(tmp_path / "tags.jsonl", tagged(80))
    code, out = doctor(capsys, "--train", tmp_path / "spans.jsonl")
    assert " labels" not in out
    code, out = doctor(capsys, "--train", tmp_path / "tags.jsonl")
    assert "5 tags (B-LOC 80, B-PER 80, " in out
    sets = ("--train", tmp_path / "train.jsonl", "--test", tmp_path / "test.jsonl")
    assert doctor(capsys, *sets, "--task", "regress")[0] == 0
    assert doctor(capsys, *sets)[0] == 1, "as classes, the labels of test are not in train"


def test_questions_about_a_context_of_the_test_set_are_a_problem() -> None:
    train = [SpanExample(f"what is {number} ?", "a bridge of 1901", (), "train.json", number) for number in range(11)]
    train.append(SpanExample("what is it ?", "another text", (), "train.json", 12))
    test = [SpanExample("who built it ?", "A bridge of 1901", (), "test.json", 1)]
    (issue,) = found(examine_data(None, {"train": train, "test": test}).issues, "overlap")
    assert issue.message.startswith("11 of 12 questions have a context that also occurs in test (11 exactly, 0 nearly)")
    assert issue.level == "problem"


def test_pairs_that_share_one_text_are_no_overlap() -> None:
    sets = {
        "train": [Example("a child sleeps", "yes", "train.csv", 1, "a dog runs over the grass")],
        "test": [Example("a child sleeps", "no", "test.csv", 1, "nobody is asleep")],
    }
    assert found(examine_data(None, sets).issues, "overlap") == []
    sets["train"].append(Example("nobody is asleep", "no", "train.csv", 2, "a child sleeps"))
    (issue,) = found(examine_data(None, sets).issues, "overlap")
    assert issue.message.startswith("1 of 2 pairs also occur in test (1 exactly, 0 nearly)")
    assert issue.message.endswith("Remove these pairs from train.")
    corpus = ["a child sleeps", "the grass is green today and nobody runs over it", "something else", "something else"]
    (issue,) = found(examine_data(lambda: corpus, {"test": sets["test"]}).issues, "overlap")
    assert issue.message.startswith("1 of 4 texts also occur in test (1 exactly, 0 nearly)")
