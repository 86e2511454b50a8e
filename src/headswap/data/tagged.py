"""A tagged set: sentences with one tag per word, from rows with `tokens` and `tags` or from a .conll file.

A .conll file has one word per line and columns separated by spaces or tabs; a blank line ends a sentence. `-DOCSTART-`
lines and comments (`# ...` before a sentence) are skipped, and their number is logged. A line `# O` or `# B-TAG` is the
word `#` with its tag. Tags can be entities in IOB2 (B-PER, I-PER, O; also BIOES) or plain tags
(NOUN, VERB). Entities are counted in metrics/entities.py.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headswap.core.errors import InputError, SettingError, counted, listed
from headswap.data.columns import COLUMN_EXTENSIONS, Problems, Row, kind_of, label_of, read_rows, text_problem
from headswap.data.config import ColumnSettings
from headswap.data.hub_sets import PREFIX, hub_rows
from headswap.data.labelled import one_file
from headswap.data.named_sets import is_named
from headswap.data.open_text import extension_of, read_lines
from headswap.data.records import TaggedExample
from headswap.data.seen_labels import check_seen

log = logging.getLogger("headswap")
CONLL_EXTENSIONS = frozenset({".conll", ".iob", ".iob2", ".bio"})
OUTSIDE = "O"
PREFIXES = ("B-", "I-", "E-", "S-")
ENTITY_TAG = re.compile(r"O|[BIES]-\S+")
WORD = re.compile(r"\w+(?:[-'’.]\w+)*|[^\w\s]")


def split_words(text: str) -> tuple[str, ...]:
    """The words of a raw text: letters and digits, with - ' . inside a word; other characters are separate words."""
    return tuple(WORD.findall(text))


def read_tagged(source: str, columns: ColumnSettings, *, needs_tags: bool = True) -> list[TaggedExample]:
    """All sentences in order; tags are read if `needs_tags`. Invalid rows are errors with file and line."""
    problems = Problems()
    wanted = {"tokens_column": columns.tokens_column}
    if needs_tags:
        wanted["tags_column"] = columns.tags_column
    if is_named(source):
        if not source.startswith(PREFIX):
            raise SettingError(f"{source} has one label per text. Use --task classify.")
        examples = list(_rows(hub_rows(source, wanted), source, "row", problems))
    else:
        path = one_file(source)
        if extension_of(path) in CONLL_EXTENSIONS:
            examples = list(_conll(path, columns, problems, needs_tags=needs_tags))
        elif extension_of(path) in COLUMN_EXTENSIONS:
            examples = list(_rows(read_rows(path, wanted, problems), str(path), "line", problems))
        else:
            raise InputError(
                f"{path} is plain text and has no tags. Give rows with '{columns.tokens_column}' and "
                f"'{columns.tags_column}' (.jsonl), or columns (.conll)."
            )
    if not examples:
        raise InputError(f"{source} is empty: it contains no sentence.")
    return examples


def tag_names(train: Sequence[TaggedExample]) -> list[str]:
    """The tags of train, sorted. For each entity type in train both tags, B- and I-, are included."""
    tags = {tag for example in train for tag in example.tags}
    marked = {tag for tag in tags if tag.startswith(PREFIXES)}
    plain = sorted(tags - marked - {OUTSIDE})
    if marked and plain:
        first = next(e for e in train if plain[0] in e.tags)
        raise InputError(
            f"{first.source}, line {first.line}: the tag '{plain[0]}' has no prefix, but others have one "
            f"({listed(sorted(marked), most=4)}). In IOB2 a tag is O, B-TYPE or I-TYPE."
        )
    complete = {f"{prefix}{tag[2:]}" for tag in marked for prefix in ("B-", "I-")}
    if complete:
        tags |= complete | {OUTSIDE}
    if len(tags) < 2:
        raise InputError(f"{train[0].source} has only one tag ({listed(sorted(tags))}). Training needs at least two.")
    return sorted(tags)


def check_tags(examples: Sequence[TaggedExample], tags: Sequence[str], *, role: str) -> None:
    """Raise if a tag of an example is not among `tags`, the tags of train."""
    check_seen(examples, tags, role=role, labels_of=lambda example: example.tags, noun="tag", unit="word")


def _rows(rows: Iterator[Row], source: str, unit: str, problems: Problems) -> Iterator[TaggedExample]:
    for line, (tokens, *tags) in rows:
        sentence = _row_problem(tokens, *tags)
        if sentence:
            problems.add(f"{source}, {unit} {line}: {sentence}.")
        else:
            names = tuple(str(label_of(tag)) for tag in tags[0]) if tags else ()
            yield TaggedExample(tuple(tokens), names, source, line)
    problems.raise_found()


def _row_problem(tokens: Any, tags: Any = None) -> str | None:
    """What is wrong with a row, or None."""
    for value, name in ((tokens, "tokens"), (tags, "tags")):
        if not isinstance(value, list) and not (name == "tags" and value is None):
            return f"the {name} are {kind_of(value)}, not a list"
    if not tokens:
        return "the sentence has no words"
    for number, token in enumerate(tokens, 1):
        if problem := text_problem(token):
            return problem.replace("the text", f"word {number}")
        if not token.strip():
            return f"word {number} is blank"
    if tags is None:
        return None
    if len(tokens) != len(tags):
        return f"{counted(len(tokens), 'word')} and {counted(len(tags), 'tag')}; every word needs one tag"
    wrong = next((number for number, tag in enumerate(tags, 1) if label_of(tag) is None), None)
    return f"tag {wrong} is {tags[wrong - 1]!r}, not a name" if wrong else None


def _is_hash_with_tag(fields: Sequence[str], width: int | None) -> bool:
    """Whether a line that begins like a comment has the columns of a word and an entity tag."""
    return len(fields) in (width, 2) and ENTITY_TAG.fullmatch(fields[-1]) is not None


def _conll(path: Path, columns: ColumnSettings, problems: Problems, *, needs_tags: bool) -> Iterator[TaggedExample]:
    tokens: list[str] = []
    tags: list[str] = []
    begin, width, num_comments = 1, None, 0
    word_at, tag_at = columns.conll_word_column - 1, (columns.conll_tag_column or 0) - 1
    for line, text in enumerate([*read_lines(path), ""], start=1):
        fields = text.split("\t") if "\t" in text else text.split()
        if not text.strip() or fields[0] == "-DOCSTART-":
            if tokens:
                yield TaggedExample(tuple(tokens), tuple(tags), str(path), begin)
            tokens, tags = [], []
            continue
        if not tokens and text.startswith("# ") and not _is_hash_with_tag(fields, width):
            num_comments += 1
            continue
        problems.pass_row()
        width = width or len(fields)
        needed = max(word_at, tag_at if needs_tags else 0, 1 if needs_tags else 0) + 1
        if len(fields) != width:
            problems.add(f"{path}, line {line}: {len(fields)} columns, but the lines before have {width}.")
        elif len(fields) < needed:
            problems.add(f"{path}, line {line}: {len(fields)} columns; a word and its tag need at least {needed}.")
        elif not fields[word_at].strip() or (needs_tags and not fields[tag_at].strip()):
            problems.add(f"{path}, line {line}: the word or its tag is blank.")
        else:
            begin = begin if tokens else line
            tokens.append(fields[word_at].strip())
            if needs_tags:
                tags.append(fields[tag_at].strip())
    if num_comments:
        log.info("%s: %s that begin with '# ' were skipped as comments.", path, counted(num_comments, "line"))
    problems.raise_found()
