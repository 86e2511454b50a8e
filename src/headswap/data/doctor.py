"""The data doctor: checks a corpus and labelled sets before training.

It reads every set (a corpus as a stream) and describes it: counts, labels, lengths, scripts, tokens per word, unknown
tokens, truncation. It collects issues: files that cannot be read, duplicates, overlap, label conflicts. A file that
cannot be read is one issue, and the other sets are still checked. The cheap checks are in checks.py, the overlap
check is in overlap.py.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Protocol

import numpy as np

from headswap.core.errors import InputError, counted
from headswap.data.checks import DAMAGED, WORD, Issue, cheap_issues, damaged_issue, has_classes, label_counts
from headswap.data.fingerprints import digests_of, first_of_equal, normalised
from headswap.data.labelled import check_labels, label_names
from headswap.data.labelled_overlap import overlap_of_examples
from headswap.data.overlap import NEAR, Overlap, how_many, occur, passages_sentence
from headswap.data.records import Labelled, TaggedExample, unit_of

ORDER = ("corpus", "train", "validation", "test")
SCORED = ("validation", "test")
MOST_FOR_NEAR = 20_000
"""In a corpus with more texts, only exact duplicates are searched, not near duplicates."""
QUANTILES = (0.5, 0.9, 0.99)
LARGE_CUT, LARGE_UNKNOWN, MANY_TOKENS_PER_WORD = 0.1, 0.01, 3.0
FEW_TOKENS_PER_PARAMETER = 1.0
BATCH = 1_000


class Encoder(Protocol):
    """The part of a tokenizer that the doctor uses."""

    origin: str
    unk_id: int | None

    def encode_batch(self, texts: list[str]) -> list[np.ndarray]:
        """The token ids of each text."""


@dataclass
class Description:
    """Counts and statistics of one set of texts."""

    num_texts: int = 0
    num_words: int = 0
    num_tokens: int | None = None
    labels: dict[str, int] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    lengths: dict[str, float] = field(default_factory=dict)
    truncated_texts: float | None = None
    truncated_tokens: float | None = None
    tokens_per_word: float | None = None
    unknown_rate: float | None = None
    scripts: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The values that are known."""
        return {name: value for name, value in self.__dict__.items() if value not in (None, {})}


@dataclass
class Diagnosis:
    """Descriptions, issues and overlaps of all sets."""

    sets: dict[str, Description] = field(default_factory=dict)
    issues: list[Issue] = field(default_factory=list)
    overlaps: list[Overlap] = field(default_factory=list)

    @property
    def problems(self) -> list[Issue]:
        """The issues that make results wrong or useless."""
        return [issue for issue in self.issues if issue.level == "problem"]

    def as_json(self) -> dict[str, Any]:
        """The object of `headswap doctor --json`; it contains no texts."""
        return {
            "sets": {name: one.as_json() for name, one in self.sets.items()},
            "findings": [issue.as_json() for issue in self.issues],
            "overlap": [overlap.as_json(with_texts=False) for overlap in self.overlaps],
        }


Texts = Callable[[], Iterable[str]]
"""Returns an iterator over the texts of a set; called once per pass, so that a corpus need not fit into memory."""


def examine_data(
    corpus: Texts | None,
    labelled: Mapping[str, Sequence[Labelled] | InputError],
    *,
    tokenizer: Encoder | None = None,
    max_length: int | None = None,
    num_parameters: int | None = None,
    labels_of: Callable[[Sequence[Any]], Sequence[str]] = label_names,
    check: Callable[..., None] = check_labels,
) -> Diagnosis:
    """Check a corpus and labelled sets; a set that could not be read is given as its error.

    `labels_of` and `check` depend on the task: the labels of train, and the check of the labels of another set.
    """
    diagnosis = Diagnosis()
    texts: dict[str, Texts] = {}
    readable = {role: one for role, one in labelled.items() if not isinstance(one, InputError)}
    diagnosis.issues += [_unreadable(role, one) for role, one in labelled.items() if isinstance(one, InputError)]
    if corpus is not None:
        try:
            diagnosis.sets["corpus"] = describe(corpus(), tokenizer=tokenizer, max_length=max_length)
            texts["corpus"] = corpus
        except InputError as problem:
            diagnosis.issues.append(_unreadable("corpus", problem))
    for role, examples in readable.items():
        texts[role] = partial(_texts_of, examples)
        diagnosis.sets[role] = describe(texts[role](), examples, tokenizer=tokenizer, max_length=max_length)
        diagnosis.issues += cheap_issues(role, examples, is_train=role == "train")
    for role, one in diagnosis.sets.items():
        diagnosis.issues += _of_description(role, one, tokenizer, max_length)
    if corpus is not None and "corpus" in texts:
        diagnosis.issues += _of_corpus(corpus(), diagnosis.sets["corpus"], num_parameters)
    diagnosis.issues += _of_labels(readable, labels_of, check)
    diagnosis.overlaps = _overlaps(readable, texts.get("corpus"), diagnosis.sets)
    units = {role: unit_of(examples) for role, examples in readable.items()}
    diagnosis.issues += [
        issue for one in diagnosis.overlaps for issue in _of_overlap(one, units.get(one.from_set, "text"))
    ]
    return diagnosis


def _texts_of(examples: Sequence[Labelled]) -> Iterator[str]:
    return (example.text for example in examples)


def _unreadable(role: str, problem: InputError) -> Issue:
    return Issue("problem", "reading", role, f"cannot be read. {problem}")


def describe(
    texts: Iterable[str],
    examples: Sequence[Labelled] = (),
    *,
    tokenizer: Encoder | None = None,
    max_length: int | None = None,
) -> Description:
    """Counts, labels, lengths and scripts, in one pass; with a tokenizer also tokens."""
    words: list[int] = []
    tokens: list[int] = []
    letters: Counter[str] = Counter()
    unknown = 0
    for batch in _batches(texts):
        words += [len(WORD.findall(text)) for text in batch]
        for text in batch:
            letters.update(text)
        if tokenizer is not None:
            encoded = tokenizer.encode_batch(batch)
            tokens += [len(ids) for ids in encoded]
            unknown += sum(int((ids == tokenizer.unk_id).sum()) for ids in encoded)
    result = Description(num_texts=len(words), num_words=sum(words), scripts=_scripts(letters))
    if has_classes(examples):
        result.labels = dict(sorted(label_counts(examples).items()))
    tags = Counter(tag for one in examples if isinstance(one, TaggedExample) for tag in one.tags)
    result.tags = dict(sorted(tags.items()))
    if tokenizer is not None:
        result.num_tokens = total = sum(tokens)
        result.tokens_per_word = round(total / result.num_words, 4) if result.num_words else None
        result.unknown_rate = round(unknown / total, 6) if total else None
        if max_length is not None and tokens:
            beyond = np.maximum(np.array(tokens) + 1 - max_length, 0)  # one position is for <sos>
            result.truncated_texts = round(float((beyond > 0).mean()), 4)
            result.truncated_tokens = round(float(beyond.sum() / max(total, 1)), 4)
    if words:
        lengths, unit = (words, "words") if tokenizer is None else (tokens, "tokens")
        quantiles = {f"{unit}_p{round(100 * part)}": float(np.quantile(lengths, part)) for part in QUANTILES}
        result.lengths = quantiles | {f"{unit}_max": float(max(lengths))}
    return result


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(texts)
    while batch := list(islice(remaining, BATCH)):
        yield batch


def _scripts(letters: Counter[str]) -> dict[str, float]:
    """The share of letters per script (Unicode names), largest first."""
    counts: Counter[str] = Counter()
    for letter, number in letters.items():
        if letter.isalpha():
            counts[_script(letter)] += number
    total = counts.total()
    return {script: round(number / total, 4) for script, number in counts.most_common(6) if number / total >= 0.0005}


@lru_cache(maxsize=1 << 16)
def _script(letter: str) -> str:
    first = unicodedata.name(letter, "UNKNOWN").split(" ")[0]
    return first.split("-")[0].capitalize()


def _of_description(role: str, one: Description, tokenizer: Encoder | None, max_length: int | None) -> Iterator[Issue]:
    if one.truncated_tokens is not None and one.truncated_tokens >= LARGE_CUT:
        yield Issue(
            "warning", "truncation", role,
            f"truncation to {max_length} tokens removes {one.truncated_tokens:.0%} of the tokens, from "
            f"{one.truncated_texts:.0%} of the texts. Raise --max-length if the base allows it.",
            {"truncated_tokens": one.truncated_tokens},
        )  # fmt: skip
    if one.unknown_rate is not None and one.unknown_rate >= LARGE_UNKNOWN:
        yield Issue(
            "warning", "unknown tokens", role,
            f"{one.unknown_rate:.1%} of the tokens are unknown to {tokenizer and tokenizer.origin}. Train a tokenizer "
            "on similar text, or use byte-level BPE, which can encode any text.",
            {"unknown_rate": one.unknown_rate},
        )  # fmt: skip
    if one.tokens_per_word is not None and one.tokens_per_word >= MANY_TOKENS_PER_WORD:
        yield Issue(
            "warning", "tokens per word", role,
            f"{one.tokens_per_word:.1f} tokens per word: the tokenizer was trained on other text. "
            "Train one on text of this kind.",
            {"tokens_per_word": one.tokens_per_word},
        )  # fmt: skip


def _of_corpus(texts: Iterable[str], one: Description, num_parameters: int | None) -> Iterator[Issue]:
    wrong: list[int] = []
    digests = digests_of(_checked_for_damage(texts, wrong))
    repeated = len(digests) - len(first_of_equal(*digests.T))
    if wrong:
        yield damaged_issue("corpus", len(wrong), one.num_texts, f"document {wrong[0]}")
    if repeated:
        yield Issue(
            "warning", "duplicates", "corpus",
            f"{repeated:,} of {counted(one.num_texts, 'document')} repeat an earlier one. The model memorizes "
            "repeated texts, and the held-out loss is too low.",
            {"duplicates": repeated},
        )  # fmt: skip
    tokens = one.num_tokens if one.num_tokens is not None else one.num_words
    if num_parameters and tokens / num_parameters < FEW_TOKENS_PER_PARAMETER:
        unit = "tokens" if one.num_tokens is not None else "words"
        yield Issue(
            "warning", "corpus size", "corpus",
            f"{tokens:,} {unit} for a base of {num_parameters:,} parameters: {tokens / num_parameters:.2g} per "
            "parameter, about 20 are recommended. Use a smaller base or more text; up to about four epochs also help.",
            {"tokens": tokens, "parameters": num_parameters},
        )  # fmt: skip


def _checked_for_damage(texts: Iterable[str], wrong: list[int]) -> Iterator[str]:
    """The normalised texts; the numbers of texts with signs of a wrong encoding are added to `wrong`."""
    for number, text in enumerate(texts, 1):
        if DAMAGED.search(text):
            wrong.append(number)
        yield normalised(text)


def _of_labels(
    sets: Mapping[str, Sequence[Labelled]], labels_of: Callable[..., Sequence[str]], check: Callable[..., None]
) -> Iterator[Issue]:
    """Problems that prevent training and evaluation: only one class, labels that do not occur in train."""
    train = sets.get("train")
    if not train:
        return
    try:
        labels = labels_of(train)
    except InputError as problem:
        yield Issue("problem", "labels", "train", str(problem))
        return
    for role in ("validation", "test"):
        try:
            check(sets.get(role, ()), labels, role=role)
        except InputError as problem:
            yield Issue("problem", "labels", role, str(problem))


def _overlaps(
    labelled: Mapping[str, Sequence[Any]], corpus: Texts | None, sets: Mapping[str, Description]
) -> list[Overlap]:
    """The overlap of every two sets, and the duplicates inside each set."""
    names = [name for name in ORDER if name in labelled or (name == "corpus" and corpus is not None)]
    pairs = [(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]
    inside = [(name, name) for name in names if name != "corpus" or sets[name].num_texts <= MOST_FOR_NEAR]
    scored = [pair for pair in pairs if pair[1] in SCORED]
    return overlap_of_examples(
        labelled, None if corpus is None else corpus(), pairs=[*pairs, *inside], containment=scored
    )


def _of_overlap(one: Overlap, unit: str) -> Iterator[Issue]:
    near, found = len(one.near), len(one.rows)
    if one.from_set == one.to_set:
        if near:
            yield Issue(
                "warning", "near duplicates", one.from_set,
                f"{near:,} of {counted(one.num_rows, unit)} nearly repeat an earlier one "
                f"(similarity of at least {NEAR}, or one other word in 8 to 28).",
                {"near_duplicates": near},
            )  # fmt: skip
    elif found:
        is_scored = one.to_set in SCORED
        remedy = f"scores on {one.to_set} will be too high. Remove these {unit}s from {one.from_set}."
        why = remedy if is_scored else "the base is trained on them without labels."
        rows = counted(one.num_rows, unit)
        yield Issue(
            "problem" if is_scored else "note", "overlap", one.from_set,
            f"{found:,} of {rows} {occur(one.num_rows, unit)} in {one.to_set} ({how_many(one)}): {why}",
            {"from": one.from_set, "to": one.to_set, **one.counts},
        )  # fmt: skip
    if one.passages:
        yield Issue(
            "note", "shared passages", one.from_set, passages_sentence(one, unit=unit),
            {"from": one.from_set, "to": one.to_set, **one.counts},
        )  # fmt: skip
