"""A tokenizer: text to ids and back, based on Hugging Face `tokenizers`.

It adds no special tokens and recognises none in a user's text: `<mask>` in a review is plain text (only
`encode_with_specials`, for `fill`, encodes it as the special token). The fingerprint is a hash of the serialised
tokenizer and is stored with everything made from it. train_tokenizer.py trains tokenizers, lab_tokenizer.py reads the
lab's dictionary.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import tokenizers

from headswap.core.errors import HeadswapError, InputError, absent, listed
from headswap.core.files import atomic_file, has_entry, parse_json, read_json
from headswap.core.installed_bases import checked_base, is_boxed
from headswap.tokens.frame import Frame, frame_in, roles_in
from headswap.tokens.marks import MarkedIds, PlacedIds, mark_sentences, placed
from headswap.tokens.parts import cut_pattern, groups_of

log = logging.getLogger("headswap")

SPECIAL_TOKENS = ("<sos>", "<pad>", "<eos>", "<unk>", "<mask>", "<sep>")
LAB_UNKNOWN = "<oov>"
MOST_HOLES = 4
"""Largest quotient of the ids and the entries of a vocabulary: the embedding has a row per id, used or not."""
KINDS = {"BPE": "bpe", "Unigram": "unigram", "WordPiece": "wordpiece", "WordLevel": "word"}


class Tokenizer:
    """Encodes text as ids and decodes ids; constructed from the content of a tokenizer.json."""

    def __init__(self, serialised: str, *, origin: str = "The tokenizer") -> None:
        content = _parse(serialised, origin)
        self.origin = origin
        self._serialised = serialised
        self._hf = parsed_tokenizer(serialised, origin)  # raises for content that the lines below could not read
        self.kind = _kind_of(content)
        self._cuts = cut_pattern(content)
        self.is_byte_level = (content.get("decoder") or {}).get("type") == "ByteLevel"
        self._digest = hashlib.sha256(_canonical(content)).digest()
        vocabulary = self._hf.get_vocab(with_added_tokens=True)
        self.vocab_size = max(vocabulary.values(), default=-1) + 1
        if self.vocab_size > MOST_HOLES * (len(vocabulary) + len(SPECIAL_TOKENS)):
            raise InputError(
                f"{origin} has the id {self.vocab_size - 1:,}, but its vocabulary has {len(vocabulary):,} entries. "
                "Number the entries from 0 on, without gaps."
            )
        foreign = roles_in(content, self.vocab_size, origin)
        roles = foreign or self._own_roles(vocabulary)
        self.sos_id, self.pad_id, self.eos_id = roles["sos"], roles["pad"], roles["eos"]
        self.unk_id, self.mask_id, self.sep_id = roles.get("unk"), roles.get("mask"), roles.get("sep")
        self.special_ids = frozenset(roles.values())
        separator = () if self.sep_id is None else (self.sep_id,)
        own = Frame(self.sos_id, (self.sos_id,), separator)
        self.frame = frame_in(content, self.sos_id, origin) if foreign else own
        """The special tokens around the texts of a sequence."""

    def _own_roles(self, vocabulary: Mapping[str, int]) -> dict[str, int]:
        """The ids of the special tokens of a tokenizer that headswap made."""
        unknown = LAB_UNKNOWN if self.kind == "lab" else "<unk>"
        names = {"sos": "<sos>", "pad": "<pad>", "eos": "<eos>", "unk": unknown}
        if missing := [name for name in names.values() if name not in vocabulary]:
            raise InputError(
                f"{self.origin} has no {listed(missing)} in its vocabulary, so it was not made by headswap. "
                "Train one with: headswap tokenizer CORPUS --out tokenizer.json"
            )
        names |= {"mask": "<mask>", "sep": "<sep>"}
        return {role: vocabulary[name] for role, name in names.items() if name in vocabulary}

    @property
    def serialised(self) -> str:
        """The content of tokenizer.json."""
        return self._serialised

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
        encoded = self._in_parts(texts, self._hf.encode_batch_fast, lambda _, encoding: _ids(encoding))
        return [_joined(parts) for parts in encoded]

    def encode_with_specials(self, text: str) -> np.ndarray:
        """The ids of a text in which the names of special tokens are encoded as these tokens."""
        with self._reporting([text]):
            return _ids(self._hf_with_specials.encode(text, add_special_tokens=False))

    def encode_batch_marked(self, texts: Sequence[str]) -> list[MarkedIds]:
        """The ids of each text, with the starts of words (as the pre-tokenizer splits) and of sentences; slower."""
        texts = list(texts)
        encoded = self._in_parts(texts, self._hf.encode_batch, _word_starts_and_ends)
        result = []
        for text, parts in zip(texts, encoded, strict=True):
            ids, word_starts, ends = map(_joined, zip(*parts, strict=True))
            result.append(MarkedIds(ids, word_starts, mark_sentences(text, ends)))
        return result

    def encode_batch_placed(self, texts: Sequence[str]) -> list[PlacedIds]:
        """The ids of each text with their character offsets."""
        texts = list(texts)
        encoded = self._in_parts(texts, self._hf.encode_batch, _ids_and_offsets)
        return [
            placed(text, *map(_joined, zip(*parts, strict=True))) for text, parts in zip(texts, encoded, strict=True)
        ]

    def _in_parts(
        self, texts: Sequence[str], encode: Callable[..., list[Any]], convert: Callable[[int, Any], Any]
    ) -> list[list[Any]]:
        """For each text its parts, encoded and converted; `convert` gets the position of a part and its encoding."""
        texts = list(texts)
        result: list[list[Any]] = [[] for _ in texts]
        with self._reporting(texts):
            for group in groups_of(texts, self._cuts):
                encodings = encode([part.content for part in group], add_special_tokens=False)
                for part, encoding in zip(group, encodings, strict=True):
                    result[part.text].append(convert(part.start, encoding))
        return result

    @contextmanager
    def _reporting(self, texts: Sequence[str]) -> Iterator[None]:
        """Turn what the package raises into a sentence; a regular expression that fails is a PanicException."""
        try:
            yield
        except (KeyboardInterrupt, SystemExit, MemoryError, HeadswapError):
            raise
        except TypeError:  # raised by the package for a lone surrogate
            raise InputError(_not_unicode(texts)) from None
        except BaseException as problem:  # PanicException is not an Exception
            raise InputError(
                f"{self.origin} cannot encode a text: the package tokenizers failed ({str(problem)[:200]}). "
                "Use another tokenizer."
            ) from None

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
        content = json.loads(larger.to_str())
        if roles := roles_in(content, larger.get_vocab_size(), self.origin):  # of a public checkpoint
            vocabulary = larger.get_vocab(with_added_tokens=True)
            added = {name.strip("<>"): vocabulary[name] for name in missing}
            frame = self.frame if self.frame.between else replace(self.frame, between=(added["sep"],))
            content["post_processor"] = frame.as_template(lambda id: str(larger.id_to_token(id)), roles | added)
        result = self._with_content(json.dumps(content, ensure_ascii=False) if roles else larger.to_str())
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
        hf = parsed_tokenizer(self._serialised, self.origin)
        hf.encode_special_tokens = False
        return hf

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._serialised,), {"origin": self.origin})


def special_token(name: str) -> tokenizers.AddedToken:
    """A special token for registration; `<mask>` includes the space before it, as words do."""
    return tokenizers.AddedToken(name, special=True, normalized=False, lstrip=name == "<mask>")


def _not_unicode(texts: Sequence[str]) -> str:
    """A sentence about the text that cannot be encoded, and why."""
    for number, text in enumerate(texts, 1):
        try:
            text.encode()
        except UnicodeEncodeError as problem:
            which = f"Text {number} of {len(texts)}" if len(texts) > 1 else "The text"
            return f"{which} contains U+{ord(text[problem.start]):04X}, a lone surrogate. Give valid Unicode text."
    return "The tokenizer encodes strings only."


def _word_starts_and_ends(start: int, encoding: tokenizers.Encoding) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ids of a part, whether each token begins a word, and where it ends in the whole text."""
    words = np.array([-1 if word is None else word for word in encoding.word_ids], dtype=np.int64)
    ends = np.array([end for _, end in encoding.offsets], dtype=np.int64) + start
    return _ids(encoding), np.diff(words, prepend=-2) != 0, ends


def _ids_and_offsets(start: int, encoding: tokenizers.Encoding) -> tuple[np.ndarray, np.ndarray]:
    return _ids(encoding), np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2) + start


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


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
        content = parse_json(serialised)
    except ValueError as problem:
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


def parsed_tokenizer(serialised: str, origin: str) -> tokenizers.Tokenizer:
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
