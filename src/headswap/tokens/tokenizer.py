"""A tokenizer: text to ids and back, based on Hugging Face `tokenizers`.

It adds no special tokens and recognises none in a user's text: `<mask>` in a review is plain text (only
`encode_with_specials`, for `fill`, encodes it as the special token). The fingerprint is a hash of the serialised
tokenizer and is stored with everything made from it. train_tokenizer.py trains tokenizers, lab_tokenizer.py reads the
lab's dictionary.
"""

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import tokenizers

from headswap.core.errors import InputError, absent, listed
from headswap.core.files import atomic_file, has_entry, read_json
from headswap.core.installed_bases import checked_base, is_boxed

log = logging.getLogger("headswap")

SPECIAL_TOKENS = ("<sos>", "<pad>", "<eos>", "<unk>", "<mask>", "<sep>")
LAB_UNKNOWN = "<oov>"
KINDS = {"BPE": "bpe", "Unigram": "unigram", "WordPiece": "wordpiece", "WordLevel": "word"}
SENTENCE_END = re.compile(r"[.!?…][\"'»”’)\]]*\s+|\n\s*")


@dataclass(frozen=True, slots=True)
class MarkedIds:
    """The ids of a text, and for each token whether it begins a word and whether it begins a sentence."""

    ids: np.ndarray
    word_starts: np.ndarray
    sentence_starts: np.ndarray


@dataclass(frozen=True, slots=True)
class PlacedIds:
    """The ids of a text, and the character offsets of each token without surrounding white space."""

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


class Tokenizer:
    """Encodes text as ids and decodes ids; constructed from the content of a tokenizer.json."""

    def __init__(self, serialised: str, *, origin: str = "The tokenizer") -> None:
        content = _parse(serialised, origin)
        self.origin = origin
        self._serialised = serialised
        self._hf = _plain(serialised, origin)  # raises for content that the lines below could not read
        self.kind = _kind_of(content)
        self.is_byte_level = (content.get("decoder") or {}).get("type") == "ByteLevel"
        self._digest = hashlib.sha256(_canonical(content)).digest()
        vocabulary = self._hf.get_vocab(with_added_tokens=True)
        self.vocab_size = max(vocabulary.values(), default=-1) + 1
        unknown = LAB_UNKNOWN if self.kind == "lab" else "<unk>"
        needed = ("<sos>", "<pad>", "<eos>", unknown)
        if missing := [name for name in needed if name not in vocabulary]:
            raise InputError(
                f"{origin} has no {listed(missing)} in its vocabulary, so it was not made by headswap. "
                "Train one with: headswap tokenizer CORPUS --out tokenizer.json"
            )
        self.sos_id, self.pad_id, self.eos_id, self.unk_id = (vocabulary[name] for name in needed)
        self.mask_id: int | None = vocabulary.get("<mask>")
        self.sep_id: int | None = vocabulary.get("<sep>")
        specials = (self.sos_id, self.pad_id, self.eos_id, self.unk_id, self.mask_id, self.sep_id)
        self.special_ids = frozenset(id for id in specials if id is not None)

    @classmethod
    def load(cls, path: str | Path, *, sentencepiece: str | Path | None = None) -> "Tokenizer":
        """Load a tokenizer.json, from a folder or run folder with one, from `box:NAME`, or the lab's dict.txt."""
        from headswap.tokens.lab_tokenizer import load_lab_json, read_dictionary

        file = _find(Path(path))
        if file.suffix == ".txt":
            return read_dictionary(file, sentencepiece=Path(sentencepiece) if sentencepiece else None)
        if _kind_of(read_json(file)) == "lab":
            return load_lab_json(file, sentencepiece=Path(sentencepiece) if sentencepiece else None)
        if sentencepiece:
            raise InputError(
                f"{file} is not the lab's tokenizer and cannot use the model {sentencepiece}. Leave it out."
            )
        return Tokenizer(file.read_text(encoding="utf-8"), origin=str(file))

    def save(self, path: Path) -> None:
        """Write the tokenizer.json `path`."""
        with atomic_file(path) as temporary:
            temporary.write_bytes(self._serialised.encode())

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits; they differ if any id may differ."""
        return self._digest.hex()[:16]

    def encode(self, text: str) -> np.ndarray:
        """The ids of a text, int32, without special tokens."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The ids of each text, computed on all cores."""
        texts = list(texts)
        try:
            return [_ids(encoding) for encoding in self._hf.encode_batch_fast(texts, add_special_tokens=False)]
        except TypeError:  # raised by the package for a lone surrogate
            raise InputError(_not_unicode(texts)) from None

    def encode_with_specials(self, text: str) -> np.ndarray:
        """The ids of a text in which the names of special tokens are encoded as these tokens."""
        try:
            return _ids(self._hf_with_specials.encode(text, add_special_tokens=False))
        except TypeError:
            raise InputError(_not_unicode([text])) from None

    def encode_batch_marked(self, texts: Sequence[str]) -> list[MarkedIds]:
        """The ids of each text, with the starts of words (as the pre-tokenizer splits) and of sentences; slower."""
        encodings = self._hf.encode_batch(list(texts), add_special_tokens=False)
        return [_marked(text, encoding) for text, encoding in zip(texts, encodings, strict=True)]

    def encode_batch_placed(self, texts: Sequence[str]) -> list[PlacedIds]:
        """The ids of each text with their character offsets."""
        encodings = self._hf.encode_batch(list(texts), add_special_tokens=False)
        return [placed(text, _ids(encoding), encoding.offsets) for text, encoding in zip(texts, encodings, strict=True)]

    def decode(self, ids: Iterable[int] | np.ndarray, *, show_specials: bool = False) -> str:
        """The text of ids, without special tokens unless `show_specials`."""
        numbers = [int(id) for id in ids]
        if wrong := [id for id in numbers if not 0 <= id < self.vocab_size]:
            raise InputError(self._no_such_id(wrong[0]))
        return self._decode([id for id in numbers if show_specials or id not in self.special_ids])

    def piece(self, id: int) -> str:
        """The vocabulary entry of an id, as the tokenizer stores it."""
        piece = self._hf.id_to_token(int(id)) if id >= 0 else None
        if piece is None:
            raise InputError(self._no_such_id(id))
        return piece

    def normalise(self, text: str) -> str:
        """The text after normalisation (lower case, NFKC), which is what decoding can restore."""
        return self._hf.normalizer.normalize_str(text) if self._hf.normalizer else text

    def count_bytes(self, text: str) -> int:
        """The number of UTF-8 bytes of a text, the divisor of bits per byte."""
        return len(text.encode())

    def bytes_of_ids(self, ids: np.ndarray) -> int:
        """The number of UTF-8 bytes of the text of some ids; also exact where a token is a part of a character."""
        if not self.is_byte_level:
            return self.count_bytes(self.decode(ids))
        return sum(len(self.piece(id)) for id in ids.tolist() if id not in self.special_ids)

    def with_mask_and_sep(self) -> "Tokenizer":
        """This tokenizer, or a copy with `<mask>` and `<sep>` appended to the vocabulary if they are missing."""
        names = ("<mask>", "<sep>")
        missing = [name for name, id in zip(names, (self.mask_id, self.sep_id), strict=True) if id is None]
        if not missing:
            return self
        larger = tokenizers.Tokenizer.from_str(self._serialised)
        larger.add_special_tokens([special_token(name) for name in missing])
        result = self._with_content(larger.to_str())
        log.info(
            "Appended %s to the vocabulary of %s: V = %s, now %s.",
            " and ".join(missing),
            self.origin,
            f"{self.vocab_size:,}",
            f"{result.vocab_size:,}",
        )
        return result

    def _with_content(self, serialised: str) -> Self:
        return type(self)(serialised, origin=self.origin)

    def _decode(self, ids: list[int]) -> str:
        return self._hf.decode(ids, skip_special_tokens=False)

    def _no_such_id(self, id: int) -> str:
        return f"{id} is not an id of this tokenizer, whose vocabulary size is {self.vocab_size:,}."

    @cached_property
    def _hf_with_specials(self) -> tokenizers.Tokenizer:
        hf = _plain(self._serialised, self.origin)
        hf.encode_special_tokens = False
        return hf

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._serialised,), {"origin": self.origin})


def special_token(name: str) -> tokenizers.AddedToken:
    """A special token for registration; `<mask>` includes the space before it, as words do."""
    return tokenizers.AddedToken(name, special=True, normalized=False, lstrip=name == "<mask>")


def sentence_positions(text: str) -> list[int]:
    """Positions where sentences begin: the start, after . ! ? … followed by white space, and after a line break."""
    return [0, *(match.end() for match in SENTENCE_END.finditer(text) if match.end() < len(text))]


def mark_sentences(text: str, ends: np.ndarray) -> np.ndarray:
    """Which tokens begin a sentence, given the end position of each token in `text`."""
    starts = np.zeros(len(ends), dtype=bool)
    first = np.searchsorted(ends, np.asarray(sentence_positions(text)), side="right")  # the first token ending after it
    starts[first[first < len(ends)]] = True
    starts[:1] = True
    return starts


def placed(text: str, ids: np.ndarray, offsets: Sequence[tuple[int, int]]) -> PlacedIds:
    """Ids with character offsets; white space that belongs to a token (`Ġfilm`, `▁film`) is excluded."""
    starts, ends = np.array(offsets, dtype=np.int64).reshape(-1, 2).T
    places = np.arange(len(text))
    is_space = np.fromiter((character.isspace() for character in text), dtype=bool, count=len(text))
    next_nonspace = np.append(np.minimum.accumulate(np.where(is_space, len(text), places)[::-1])[::-1], len(text))
    after_nonspace = np.append(0, np.maximum.accumulate(np.where(is_space, 0, places + 1)))
    starts = np.minimum(next_nonspace[starts], ends)
    return PlacedIds(ids, starts, np.maximum(after_nonspace[ends], starts))


def _not_unicode(texts: Sequence[str]) -> str:
    """A sentence about the text that cannot be encoded, and why."""
    for number, text in enumerate(texts, 1):
        try:
            text.encode()
        except UnicodeEncodeError as problem:
            which = f"Text {number} of {len(texts)}" if len(texts) > 1 else "The text"
            return f"{which} contains U+{ord(text[problem.start]):04X}, a lone surrogate. Give valid Unicode text."
    return "The tokenizer encodes strings only."


def _marked(text: str, encoding: tokenizers.Encoding) -> MarkedIds:
    words = np.array([-1 if word is None else word for word in encoding.word_ids], dtype=np.int64)
    ends = np.array([end for _, end in encoding.offsets], dtype=np.int64)
    word_starts = np.diff(words, prepend=-2) != 0
    return MarkedIds(_ids(encoding), word_starts, mark_sentences(text, ends))


def _ids(encoding: tokenizers.Encoding) -> np.ndarray:
    return np.array(encoding.ids, dtype=np.int32)


def is_tokenizer(file: Path) -> bool:
    """Whether a file is a tokenizer written by headswap."""
    try:
        return has_entry(file, "model") and bool(Tokenizer(file.read_text(encoding="utf-8")))
    except InputError:
        return False


def _find(path: Path) -> Path:
    """The tokenizer file at `path` or in the folder `path`."""
    if path.is_file():
        return path
    if is_boxed(path):
        return checked_base(path) / "tokenizer.json"
    if not path.exists():
        raise InputError(f"The tokenizer {absent(path)}")
    for inside in (path / "tokenizer.json", path / "bundle" / "tokenizer.json"):
        if inside.is_file():
            return inside
    raise InputError(
        f"{path} contains no tokenizer: it has neither tokenizer.json nor bundle/tokenizer.json. "
        "Give a tokenizer.json, a bundle, a run folder, a token store, or a dict.txt."
    )


def _parse(serialised: str, origin: str) -> dict[str, Any]:
    try:
        content = json.loads(serialised)
    except json.JSONDecodeError as problem:
        raise InputError(f"{origin} is not valid JSON ({problem}).") from None
    if not isinstance(content, dict):
        raise InputError(f"{origin} is not a tokenizer: it is JSON, but not an object.")
    return content


def _kind_of(content: Any) -> str:
    model = content.get("model") if isinstance(content, dict) else None
    if not isinstance(model, dict):
        return "unknown"
    if model.get("type") == "WordLevel" and model.get("unk_token") == LAB_UNKNOWN:
        return "lab"
    return KINDS.get(str(model.get("type")), "unknown")


def _plain(serialised: str, origin: str) -> tokenizers.Tokenizer:
    """The Hugging Face tokenizer without truncation, padding and recognition of special tokens in text."""
    try:
        hf = tokenizers.Tokenizer.from_str(serialised)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as problem:  # the package raises Exception, and PanicException, which is only a BaseException
        raise InputError(f"{origin} is not a tokenizer that the package tokenizers can read ({problem}).") from None
    hf.no_truncation()
    hf.no_padding()
    hf.encode_special_tokens = True  # not stored in tokenizer.json
    return hf


def _canonical(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
