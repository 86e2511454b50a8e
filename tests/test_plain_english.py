"""The check of phrases finds each rejected phrase, does not check code, and finds nothing in the documents."""

from pathlib import Path

import pytest

from plain_english import (
    ROOT,
    RULES,
    matches,
    matches_of_python,
    problems_of_documents,
    problems_of_test_names,
    prose_of_document,
)

REJECTED = [
    "texts that also stand in test",
    "it stood beside the table",
    "a line standing behind it",
    "the study goes on after a kill",
    "go on with the run",
    "layers get their turn one by one",
    "layers whose turn has not come",
    "film reviews that come along",
    "the rate is told",
    "less than three tokens a parameter",
    "one line a text",
    "a folder a job",
    "two labels a document",
    "batches are filled up to few sizes",
    "a graph that is played back",
    "a recorded step",
    "a base that has read enough",
    "what moves in fine-tuning",
    "what is carried over",
    "the base in the box",
    "targets are the hidden tokens",
    "the contamination of a test set",
    "the guard drops them",
    "the head hurries",
    "its corpus is not to be had: none is to be had",
    "replaced in one stroke",
]
ACCEPTED = [
    "The run resumes at the last checkpoint, and one line per text is printed.",
    "It was trained on 400 M tokens, at least 3 tokens per parameter.",
    "The overlap check found 270 reviews (record/guard.json).",
    "A text, a label: two columns.",
    "Which tokens a masked objective masks.",
    "It costs each process a second.",
    "The standard error goes on to fall.",
]


@pytest.mark.parametrize("text", REJECTED)
def test_a_phrase_of_the_old_style_is_found(text: str) -> None:
    assert matches(text), text


def test_every_rule_has_an_example_that_it_finds() -> None:
    unused = [rule.pattern for rule in RULES if not any(rule.search(text) for text in REJECTED)]
    assert unused == []


@pytest.mark.parametrize("text", ACCEPTED)
def test_plain_sentences_are_accepted(text: str) -> None:
    assert matches(text) == []


def test_a_phrase_is_found_across_a_line_break_and_reported_with_its_line() -> None:
    (found,) = matches("The first line.\nTexts that stand\nin two sets.")
    assert (found.line, found.phrase) == (2, "stand in")
    assert "occurs in" in found.wording


def test_code_of_a_document_is_not_checked_but_its_comments_are() -> None:
    text = "Use `--on-overlap guard`.\n\n```\nthe film is told badly\nheadswap study  # the guard drops texts\n```\n"
    (found,) = matches(prose_of_document(text))
    assert (found.line, found.phrase) == (5, "guard")


def test_of_a_program_only_sentences_and_comments_are_checked() -> None:
    program = (
        'guard = {"guard": 1, "went on from": 2}\n'
        "# This run goes\n"
        "# on later.\n"
        'say(f"{guard} is "\n'
        '    "told once")\n'
        "def f():\n"
        '    """A docstring.\n\n    Two lines a text.\n    """\n'
    )
    assert [(found.line, found.phrase) for found in matches_of_python(program)] == [
        (2, "goes on"),
        (4, "is told"),
        (9, "Two lines a text"),
    ]


def test_the_documents_have_none_of_these_phrases() -> None:
    assert problems_of_documents(ROOT) == []


def test_names_of_tests_are_read_as_sentences(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    program = "x = 1\n\n\ndef test_a_run_goes_on() -> None:\n    guard = 1\n"
    (tmp_path / "tests" / "test_x.py").write_text(program, encoding="utf-8")
    assert problems_of_test_names(tmp_path) == ["tests/test_x.py:4: 'goes on' -> resumes, continues"]
    assert problems_of_test_names(ROOT) == []


def test_a_problem_names_file_line_phrase_and_wording(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Title\n\nA base in the box.\n", encoding="utf-8")
    assert problems_of_documents(tmp_path) == ["README.md:3: 'in the box' -> installed"]
