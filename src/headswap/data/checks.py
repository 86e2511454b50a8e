"""Cheap checks of labelled sets: one pass, no tokenizer, no model. Training and `headswap doctor` run them.

An issue is one line. A *problem* makes results wrong or useless, a *warning* should be looked at, a *note* is a fact.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from headswap.core.errors import counted, listed
from headswap.data.fingerprints import BLOCK_TEXTS, digests_of, first_of_equal, normalised
from headswap.data.records import Labelled, SpanExample, TaggedExample, unit_of

Level = Literal["problem", "warning", "note"]
MISSING = frozenset({"nan", "na", "n/a", "<na>", "null", "#n/a"})
"""How other tools write a missing value, in lower case."""
FEWEST_PER_LABEL = 5
LARGEST_SHARE = 0.9
SORTED_SHARE = 0.25  # of the label changes between neighbouring texts that are expected in a shuffled set
FEWEST_TO_JUDGE_ORDER = 20
SHORTCUT_PRECISION, SHORTCUT_COVERAGE, SHORTCUT_TEXTS = 0.98, 0.3, 10
MOST_SHORTCUTS = 5
MOST_LINES = 20  # conflicts whose lines are listed in the JSON
NUM_BUCKETS = 1 << 20
DAMAGED = re.compile("\ufffd|Ã[\u0080-\u00bf]|â€[\u0098-\u009d™œ\u009d“”]|Â[\u00a0-\u00bf]")
WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@dataclass(frozen=True)
class Issue:
    """Something that a check found in one set of texts."""

    level: Level
    check: str
    where: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def sentence(self) -> str:
        """The issue as one line."""
        return f"{self.where}: {self.message}"

    def as_json(self) -> dict[str, Any]:
        """The issue for `--json`."""
        return {"level": self.level, "check": self.check, "set": self.where, "message": self.message, **self.details}


def cheap_issues(role: str, examples: Sequence[Labelled], *, is_train: bool = False) -> list[Issue]:
    """The issues of all cheap checks of one labelled set."""
    if not examples:
        return []
    digests, labels = digests_of(map(_key, examples)), _label_numbers(examples)
    found = [_duplicates(role, examples, digests, labels), _conflicts(role, examples, digests, labels)]
    found += [_damaged(role, examples)]
    if has_classes(examples):
        found += [_sorted(role, examples)]
        if is_train:
            found += [_missing_labels(role, examples), *_label_counts(role, examples), *shortcuts(role, examples)]
    return [issue for issue in found if issue is not None]


def issues_of(sets: Mapping[str, Sequence[Labelled]]) -> list[Issue]:
    """The issues of all cheap checks of all sets, in their order."""
    return [one for role, examples in sets.items() for one in cheap_issues(role, examples, is_train=role == "train")]


def has_classes(examples: Sequence[Labelled]) -> bool:
    """Whether the labels are classes: few different ones per text. Numbers, tag sequences and answers are not."""
    if any(isinstance(one, SpanExample | TaggedExample) for one in examples[:1]) or has_values(examples):
        return False
    return 2 <= len({one.label for one in examples}) <= max(2, len(examples) // 2)


def has_values(examples: Sequence[Labelled]) -> bool:
    """Whether the labels are the numbers of a regression."""
    return any(getattr(one, "value", 0.0) for one in examples)


def label_counts(examples: Sequence[Labelled]) -> Counter[str]:
    """Number of texts per label. All labels of a multi-label text are counted; '' counts texts without a label."""
    if not any(getattr(one, "labels", ()) for one in examples):
        return Counter(one.label for one in examples)
    return Counter(name for one in examples for name in getattr(one, "labels", ()) or ("",))


def _named(label: str) -> str:
    """A label as part of a sentence; the label of a multi-label text without labels is empty."""
    return f"'{label}'" if label else "no label"


def _with(label: str) -> str:
    """The texts of one label, as part of a sentence."""
    return f"labelled '{label}'" if label else "without a label"


def _key(example: Labelled) -> str:
    """A key that is equal for equal inputs: the normalised text, or both texts of a pair."""
    pair = getattr(example, "text_pair", None)
    return normalised(example.text) + (f"\x1f{normalised(pair)}" if pair else "")


def _label_numbers(examples: Sequence[Labelled]) -> np.ndarray:
    """A number per label, in the order of their first occurrence."""
    numbers: dict[str, int] = {}
    return np.fromiter((numbers.setdefault(one.label, len(numbers)) for one in examples), np.int64, len(examples))


def _missing_labels(role: str, examples: Sequence[Labelled]) -> Issue | None:
    """Labels that are how other tools write a missing value."""
    counts = label_counts(examples)
    names = sorted(name for name in counts if name.strip().lower() in MISSING)
    if not names:
        return None
    rows = sum(counts[name] for name in names)
    are = "is a label" if len(names) == 1 else "are labels"
    return Issue(
        "warning", "missing labels", role,
        f"{listed(names)} {are} of {counted(rows, 'text')}. Other tools write missing values so. If these texts have "
        "no label, remove them.",
        {"labels": names, "texts": rows},
    )  # fmt: skip


def _duplicates(role: str, examples: Sequence[Labelled], digests: np.ndarray, labels: np.ndarray) -> Issue | None:
    is_repeated = np.ones(len(examples), dtype=bool)
    is_repeated[first_of_equal(*digests.T, labels)] = False
    if not is_repeated.any():
        return None
    row = int(is_repeated.argmax())
    is_equal = (digests == digests[row]).all(axis=1) & (labels == labels[row])
    again, first = examples[row], examples[int(is_equal.argmax())]
    repeated = int(is_repeated.sum())
    return Issue(
        "warning", "duplicates", role,
        f"{repeated:,} of {counted(len(examples), unit_of(examples))} {'repeats' if repeated == 1 else 'repeat'} an "
        f"earlier one (line {again.line} repeats line {first.line}). Repeated ones count several times in training and "
        "in scores.",
        {"duplicates": repeated},
    )  # fmt: skip


def _conflicts(role: str, examples: Sequence[Labelled], digests: np.ndarray, labels: np.ndarray) -> Issue | None:
    if isinstance(examples[0], SpanExample):  # a question may have several answers
        return None
    rows = np.sort(first_of_equal(*digests.T, labels))  # one per text and label
    rows = rows[np.lexsort(digests[rows].T)]
    starts = np.flatnonzero(np.append(True, (digests[rows[1:]] != digests[rows[:-1]]).any(axis=1)))
    ends = np.append(starts[1:], len(rows))
    groups = np.flatnonzero(ends - starts > 1)
    if not len(groups):
        return None
    groups = groups[np.argsort(rows[starts[groups]])]
    shown = [[examples[row] for row in rows[starts[group] : ends[group]]] for group in groups[:MOST_LINES]]
    one, other = shown[0][:2]
    what = "values" if has_values(examples) else "labels"
    what = f"different {what} (line {one.line}: {_named(one.label)}, line {other.line}: {_named(other.label)})"
    if isinstance(one, TaggedExample):
        what = f"different tags (lines {one.line} and {other.line})"
    return Issue(
        "problem", "label conflicts", role,
        f"{counted(len(groups), unit_of(examples))} with {what}. No model can predict both: correct or remove them.",
        {"conflicts": len(groups), "lines": [[one.line for one in conflict] for conflict in shown]},
    )  # fmt: skip


def _damaged(role: str, examples: Sequence[Labelled]) -> Issue | None:
    wrong = [number for number, one in enumerate(examples, 1) if DAMAGED.search(one.text)]
    if not wrong:
        return None
    unit = unit_of(examples)
    return damaged_issue(role, len(wrong), len(examples), f"{unit} {wrong[0]}", unit=unit)


def damaged_issue(role: str, number: int, total: int, first: str, *, unit: str = "text") -> Issue:
    """The issue for texts that were decoded with a wrong encoding before they were saved."""
    return Issue(
        "warning", "encoding", role,
        f"{number:,} of {counted(total, unit)} contain signs of a wrong encoding, such as 'Ã©' or U+FFFD "
        f"(first: {first}). Export them again as UTF-8.",
        {"damaged": number},
    )  # fmt: skip


def _label_counts(role: str, examples: Sequence[Labelled]) -> Iterator[Issue]:
    counts, unit = label_counts(examples).items(), unit_of(examples)
    if small := sorted(label for label, number in counts if label and number < FEWEST_PER_LABEL):
        yield Issue(
            "warning", "label counts", role,
            f"{counted(len(small), 'label')} with fewer than {FEWEST_PER_LABEL} {unit}s ({listed(small, most=5)}): "
            "too few to train on or to hold out.",
            {"small_labels": small},
        )  # fmt: skip
    label, number = Counter(one.label for one in examples).most_common(1)[0]
    if number > LARGEST_SHARE * len(examples):
        are = f"are '{label}'" if label else "have no label"
        yield Issue(
            "warning", "label counts", role,
            f"{number / len(examples):.0%} of the {unit}s {are}: accuracy is misleading here, use macro-F1.",
            {"largest_share": number / len(examples)},
        )  # fmt: skip


def _sorted(role: str, examples: Sequence[Labelled]) -> Issue | None:
    counts = Counter(one.label for one in examples)
    total, unit = len(examples), unit_of(examples)
    if total < FEWEST_TO_JUDGE_ORDER:
        return None
    changes = sum(one.label != other.label for one, other in pairwise(examples))
    expected = (total - 1) * (1 - sum((number / total) ** 2 for number in counts.values()))
    if changes > SORTED_SHARE * expected:
        return None
    return Issue(
        "note", "sorted labels", role,
        f"the {unit}s are sorted by label ({changes:,} label changes in {total:,} {unit}s, {expected:,.0f} if "
        "shuffled). headswap shuffles them. If you split the file by hand, shuffle it first.",
        {"changes": changes, "expected_changes": round(expected)},
    )  # fmt: skip


def _words_of(example: Labelled) -> set[str]:
    return set(WORD.findall(example.text.lower()))


def _texts_per_bucket(examples: Sequence[Labelled]) -> np.ndarray:
    """How many texts contain a word, at most: words are counted by their hash, in memory that does not grow."""
    result = np.zeros(NUM_BUCKETS, dtype=np.int64)
    for start in range(0, len(examples), BLOCK_TEXTS):
        block = examples[start : start + BLOCK_TEXTS]
        buckets = [hash(word) % NUM_BUCKETS for example in block for word in _words_of(example)]
        np.add.at(result, np.array(buckets, dtype=np.int64), 1)
    return result


def shortcuts(role: str, examples: Sequence[Labelled]) -> list[Issue]:
    """Single words that predict a label almost perfectly, often an artefact of how the set was made."""
    totals = Counter(one.label for one in examples)
    texts_with = _texts_per_bucket(examples)
    fewest = max(SHORTCUT_TEXTS, SHORTCUT_COVERAGE * min(totals.values()))
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for example in examples:
        for word in _words_of(example):
            if texts_with[hash(word) % NUM_BUCKETS] >= fewest:  # else the word is too rare
                counts[word][example.label] += 1
    found = []
    for word, labels in counts.items():
        label, hits = labels.most_common(1)[0]
        precision, coverage = hits / labels.total(), hits / totals[label]
        is_precise = precision >= SHORTCUT_PRECISION and totals[label] / len(examples) <= LARGEST_SHARE
        if hits >= SHORTCUT_TEXTS and coverage >= SHORTCUT_COVERAGE and is_precise:
            found.append((coverage, precision, word, label))
    found.sort(key=lambda one: (-one[0], one[2]))
    return [
        Issue(
            "warning", "shortcuts", role,
            f"the word '{word}' predicts the label: it occurs in {coverage:.0%} of the texts {_with(label)}, and "
            f"{precision:.0%} of the texts with it are {_with(label)}. Is it an artefact of how the set was made?",
            {"word": word, "label": label, "coverage": round(coverage, 4), "precision": round(precision, 4)},
        )
        for coverage, precision, word, label in found[:MOST_SHORTCUTS]
    ]  # fmt: skip


def log_issues(issues: Iterable[Issue], log: Any) -> None:
    """Log one line per issue."""
    for issue in issues:
        write = log.info if issue.level == "note" else log.warning
        write("%s", issue.sentence()[:1].upper() + issue.sentence()[1:], extra={"is_issue": True})
