"""Run by `make check`: phrases of the old house style are rejected, each with a better wording.

Checked are the documents, the report templates, and of every Python file under src the comments and the strings with at
least one space: docstrings, help texts, messages; also the names of tests. Other code is not checked: fenced blocks and
`inline code` of a document, names and keys of a program. In a fenced block the comments are checked.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**/*.md", "benchmarks/*.md", "bases/*/README.md")
SOURCES = ("src/**/*.py",)
TEMPLATES = ("src/**/*.j2",)
TESTS = ("tests/**/test_*.py",)
NAME_OF_TEST = re.compile(r"^ *def (test_\w+)", re.MULTILINE)
UNIT = (
    "byte|call|class|cell|device|document|epoch|example|file|job|label|layer|line|logit|mask|parameter|process|prompt|"
    "row|run|seed|segment|sequence|side|step|target|task|tensor|text|token|type|verb|word"
)
COUNTED = rf"{UNIT}|answer|color|colour|column|folder|number|part|score|tag|thread|value|vector|window"
PHRASES = {
    r"stands? (?:in|on|apart|beside|behind|there|alone|neither)": "is in, occurs in, is listed in",
    r"stood (?:in|on|apart|beside|behind|there|alone|neither)": "was in, occurred in",
    r"standing (?:in|apart|beside|behind)": "in, which is in",
    r"(?:goes|go|went|going|gone) on\b(?! to\b| a\b| the (?:card|device))": "resumes, continues",
    r"(?:gets?|got|waits? for) (?:its|their|a) turn": "is unfrozen, is trained, is frozen until",
    r"whose turn": "that are unfrozen",
    r"(?:comes?|came) along": "is bundled, is installed",
    r"(?:is|are|was|were|be|been) told": "is reported, is given, is stated",
    rf"tokens? a (?:{UNIT}|second)": "tokens per ...",
    rf"(?:a|one|two|three|each|every|\d[\d,.]*|several|as many) (?:\w+ )?(?:{COUNTED})s? an? (?:{UNIT})": "... per ...",
    r"fill(?:ed|s|ing)? up": "padded, pads",
    r"play(?:ed|s|ing)? back": "replayed, replays (a CUDA graph)",
    r"recorded steps?|steps? (?:that )?(?:is|are|was|were) recorded": "captured (a CUDA graph)",
    r"ha(?:s|ve|d) read (?!it\b)(?:[\d.,]+|a|few|enough|less|more|most|so|the|only|its|IMDb)": "was trained on",
    r"what moves|moves? (?:alike|slowly|fast|everything)": "what is trained, has the same learning rate",
    r"carried over|carries .{1,30} over": "kept from the base",
    r"in the box": "installed",
    r"hidden tokens?|tokens? (?:is|are) hidden": "masked tokens",
    r"contamination": "overlap",
    r"guard(?:s|ed)?\b(?!\.json)": "overlap check",
    r"hurr(?:y|ies)": "has a higher learning rate",
    r"is to be had": "is available",
    r"in one stroke": "atomically",
}
RULES = {
    re.compile(rf"\b(?:{phrase})\b".replace(" ", r"\s+"), re.IGNORECASE): wording for phrase, wording in PHRASES.items()
}
KEYS = {"went on from"}
"""Keys of model cards, which keep their names."""
FENCE = re.compile(r"^( *)(```|~~~).*?^ *\2", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")


class Match(NamedTuple):
    """A phrase that is rejected: its line, what is written there, what to write instead."""

    line: int
    phrase: str
    wording: str


def matches(text: str, first_line: int = 1) -> list[Match]:
    """Every rejected phrase of a text, in order of lines."""
    found = [
        Match(first_line + text.count("\n", 0, match.start()), " ".join(match[0].split()), wording)
        for rule, wording in RULES.items()
        for match in rule.finditer(text)
    ]
    return sorted(found)


def prose_of_document(text: str) -> str:
    """A Markdown document without its code, line by line; of a fenced block the comments are left."""
    text = FENCE.sub(lambda block: "\n".join(_comment(line) for line in block[0].split("\n")), text)
    return CODE.sub(lambda code: "x" * len(code[0]), text)


def _comment(line: str) -> str:
    _, sign, comment = line.partition("# ")
    return f"{comment}." if sign else "."


def matches_of_python(text: str) -> list[Match]:
    """Every rejected phrase in the comments and sentences of a program."""
    found = [match for line, part in _prose_of_python(text) for match in matches(part, line)]
    return sorted(set(found))


def _prose_of_python(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of every string with a space, and of every run of comment lines."""
    for node in ast.walk(ast.parse(text)):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and " " in node.value.strip() and node.value not in KEYS:
            yield node.lineno, node.value
    run: list[str] = []
    last = -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        if token.start[0] != last + 1 and run:
            yield last - len(run) + 1, "\n".join(run)
            run = []
        run.append(token.string.lstrip("#").strip())
        last = token.start[0]
    if run:
        yield last - len(run) + 1, "\n".join(run)


def files(root: Path, patterns: tuple[str, ...]) -> list[Path]:
    """The files of these patterns."""
    return sorted({file for pattern in patterns for file in root.glob(pattern)})


def problems_of_documents(root: Path) -> list[str]:
    """`file:line: phrase -> better wording` for the documents."""
    return [
        _line(file, root, match)
        for file in files(root, DOCUMENTS)
        for match in matches(prose_of_document(file.read_text(encoding="utf-8")))
    ]


def problems_of_sources(root: Path) -> list[str]:
    """The same for programs and report templates."""
    programs = [
        _line(file, root, match)
        for file in files(root, SOURCES)
        for match in matches_of_python(file.read_text(encoding="utf-8"))
    ]
    templates = [
        _line(file, root, match)
        for file in files(root, TEMPLATES)
        for match in matches(file.read_text(encoding="utf-8"))
    ]
    return programs + templates


def problems_of_test_names(root: Path) -> list[str]:
    """The same for the names of tests, read as sentences."""
    found = []
    for file in files(root, TESTS):
        text = file.read_text(encoding="utf-8")
        for name in NAME_OF_TEST.finditer(text):
            line = 1 + text.count("\n", 0, name.start(1))
            found += [_line(file, root, match) for match in matches(name[1].replace("_", " "), line)]
    return found


def _line(file: Path, root: Path, match: Match) -> str:
    return f"{file.relative_to(root)}:{match.line}: '{match.phrase}' -> {match.wording}"


def main() -> int:
    """Print every problem; 1 if there is one."""
    problems = problems_of_documents(ROOT) + problems_of_sources(ROOT) + problems_of_test_names(ROOT)
    print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
