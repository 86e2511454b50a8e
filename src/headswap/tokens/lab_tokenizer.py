"""The lab's tokenizer: `<sos>` `<pad>` `<eos>` `<oov>`, then the sentencepiece pieces of `dict.txt` in file order.

A text whose first character is U+2581 (▁) is already split into pieces, and these are looked up in the dictionary. Any
other text is split by the sentencepiece model first. Without that model it is an error: "les" and "livre" are entries
of the dictionary with and without ▁, so looking up raw words would give wrong ids silently. The tokenizer is saved as a
tokenizer.json (recognised by its `<oov>`) together with the sentencepiece model. Everything else is as in `Tokenizer`.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from headswap.core.errors import InputError, MissingExtraError, absent, listed, raise_problems
from headswap.core.files import atomic_file
from headswap.tokens.marks import MarkedIds, PlacedIds, mark_sentences, placed
from headswap.tokens.tokenizer import LAB_UNKNOWN, SPECIAL_TOKENS, Tokenizer

SPACE = "\u2581"
WORDS = re.compile(r"[^ \t\r\n]+")
BLANKS = re.compile(r"[ \t\r\n]+")  # not str.split: a piece may contain other white space
LAB_SPECIAL_TOKENS = ("<sos>", "<pad>", "<eos>", LAB_UNKNOWN)
MODEL_FILE = "sentencepiece.model"
MODEL_PATTERN = "sentencepiece*.model"


class LabTokenizer(Tokenizer):
    """Looks up pieces in the lab's dictionary."""

    def __init__(self, serialised: str, *, origin: str = "The lab's tokenizer", model: bytes | None = None) -> None:
        super().__init__(serialised, origin=origin)
        self._model = model
        if model is not None:
            self._digest = hashlib.sha256(self._digest + hashlib.sha256(model).digest()).digest()
        vocabulary = self._hf.get_vocab(with_added_tokens=True)
        self._special_id_of = {piece: id for piece, id in vocabulary.items() if id in self.special_ids}
        self._id_of = {piece: id for piece, id in vocabulary.items() if id not in self.special_ids}
        self._piece_of = {id: piece for piece, id in vocabulary.items()}
        self._specials = re.compile("(" + "|".join(map(re.escape, self._special_id_of)) + ")")

    def save(self, path: Path) -> None:
        """Write the tokenizer.json `path` and the sentencepiece model into the same folder."""
        own = path.parent / MODEL_FILE
        others = [file for file in path.parent.glob(MODEL_PATTERN) if file != own or self._model is None]
        if others:
            raise InputError(
                f"{path.parent} already contains {listed(file.name for file in others)}, which would be read as the "
                "model of the tokenizer saved there. Remove it or choose another folder."
            )
        if self._model is not None:
            with atomic_file(own) as temporary:
                temporary.write_bytes(self._model)
        super().save(path)

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The ids of each text, either raw or split into pieces."""
        return [self._look_up(pieces) for pieces in self._pieces_batch(texts)]

    def encode_batch_marked(self, texts: Sequence[str]) -> list[MarkedIds]:
        """The ids of each text, with the starts of words (pieces with ▁) and of sentences."""
        return [self._marked(pieces) for pieces in self._pieces_batch(texts)]

    def encode_batch_placed(self, texts: Sequence[str]) -> list[PlacedIds]:
        """The ids of each text with their character offsets; texts are raw or split into pieces."""
        return [self._offsets_of(text) for text in texts]

    def _offsets_of(self, text: str) -> PlacedIds:
        """Offsets word by word: sentencepiece splits words independently, and its own offsets vary by release."""
        words = list(WORDS.finditer(text))
        pieces_of = [[word.group()] for word in words]
        if not _is_pieces(text):
            pieces_of = self._pieces_batch([word.group() for word in words])
        pieces: list[str] = []
        places: list[tuple[int, int]] = []
        for word, parts in zip(words, pieces_of, strict=True):
            lengths = [len(part) for part in parts]
            if not _is_pieces(text):
                lengths[:1] = [len(parts[0].removeprefix(SPACE))]
            ends = np.cumsum(lengths)
            fits = len(ends) > 0 and ends[-1] == len(word.group())
            for number, part in enumerate(parts):  # if a length was normalised, a piece gets its word's offsets
                begin = int(ends[number - 1]) if number else 0
                end = int(ends[number])
                places.append((word.start() + begin, word.start() + end) if fits else word.span())
                pieces.append(part)
        return placed(text, self._look_up(pieces), places)

    def encode_with_specials(self, text: str) -> np.ndarray:
        """The ids of a text in which the names of special tokens are encoded as these tokens."""
        if _is_pieces(self._specials.sub(" ", text)):
            ids = self._id_of | self._special_id_of
            return np.array([ids.get(piece, self.unk_id) for piece in _split(text)], dtype=np.int32)
        parts = [
            np.array([self._special_id_of[part]], dtype=np.int32) if part in self._special_id_of else self.encode(part)
            for part in self._specials.split(text)
        ]
        return np.concatenate(parts)

    def normalise(self, text: str) -> str:
        """The raw text that decoding can restore."""
        return self._decode_pieces(self._pieces_batch([text])[0])

    def count_bytes(self, text: str) -> int:
        """The number of UTF-8 bytes of the raw text, also if the text is given in pieces."""
        return len((self._decode_pieces(_split(text)) if _is_pieces(text) else text).encode())

    def _marked(self, pieces: list[str]) -> MarkedIds:
        word_starts = np.array([piece.startswith(SPACE) for piece in pieces], dtype=bool)
        word_starts[:1] = True
        ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
        sentence_starts = mark_sentences("".join(pieces).replace(SPACE, " "), ends)
        return MarkedIds(self._look_up(pieces), word_starts, sentence_starts)

    def _look_up(self, pieces: list[str]) -> np.ndarray:
        get, unknown = self._id_of.get, self.unk_id
        return np.array([get(piece, unknown) for piece in pieces], dtype=np.int32)

    def _pieces_batch(self, texts: Sequence[str]) -> list[list[str]]:
        raw = [number for number, text in enumerate(texts) if not _is_pieces(text) and not text.isspace() and text]
        result = [_split(text) if _is_pieces(text) else [] for text in texts]
        if raw:
            for number, pieces in zip(raw, self._processor.encode([texts[i] for i in raw], out_type=str), strict=True):
                result[number] = pieces
        return result

    def _decode(self, ids: list[int]) -> str:
        return self._decode_pieces([self._piece_of[id] for id in ids])

    @staticmethod
    def _decode_pieces(pieces: list[str]) -> str:
        return "".join(pieces).replace(SPACE, " ").removeprefix(" ")

    @cached_property
    def _processor(self) -> Any:
        if self._model is None:
            raise InputError(
                f"This text is not split into pieces (it does not begin with {SPACE}), and {self.origin} has no "
                "sentencepiece model in its folder. Looking up raw words would give wrong ids silently, since 'les' or "
                f"'livre' can be pieces with and without {SPACE}. Put the model ({MODEL_PATTERN}) into the folder of "
                "the dictionary, or give text that is split into pieces."
            )
        try:
            import sentencepiece
        except ImportError:
            raise MissingExtraError("Raw text with the lab's tokenizer", extra="hf", package="sentencepiece") from None
        try:
            processor = sentencepiece.SentencePieceProcessor(model_proto=self._model)
        except RuntimeError:
            raise InputError(f"The sentencepiece model of {self.origin} cannot be read: it is damaged.") from None
        pieces = [processor.id_to_piece(i) for i in range(len(processor)) if not _is_symbol(processor, i)]
        if foreign := [piece for piece in pieces if piece not in self._id_of]:
            raise InputError(
                f"The sentencepiece model does not belong to the dictionary {self.origin}: {len(foreign):,} of its "
                f"{len(pieces):,} pieces are not in it ({listed(foreign, most=3)}). "
                "Give the model that belongs to the dictionary."
            )
        return processor

    def _with_content(self, serialised: str) -> Self:
        return type(self)(serialised, origin=self.origin, model=self._model)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (self._serialised, self.origin, self._model))


def read_dictionary(path: Path, *, sentencepiece: Path | None = None) -> LabTokenizer:
    """The tokenizer of a `dict.txt` (lines of `piece count`) and of the sentencepiece model in its folder, if any."""
    pieces = _read_pieces(path)
    vocabulary = {piece: id for id, piece in enumerate([*LAB_SPECIAL_TOKENS, *pieces])}
    return LabTokenizer(_serialise(vocabulary), origin=str(path), model=_read_model(path.parent, sentencepiece))


def load_lab_json(path: Path, *, sentencepiece: Path | None = None) -> LabTokenizer:
    """The tokenizer that `LabTokenizer.save` wrote."""
    model = _read_model(path.parent, sentencepiece)
    return LabTokenizer(path.read_text(encoding="utf-8"), origin=str(path), model=model)


def _read_pieces(path: Path) -> list[str]:
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as problem:
        raise InputError(f"{path} is not UTF-8 text ({problem}).") from None
    reserved = {*SPECIAL_TOKENS, LAB_UNKNOWN}
    line_of: dict[str, int] = {}
    problems = []
    for number, line in enumerate(lines, start=1):
        if not line.strip("\r") and number == len(lines):
            continue
        piece, blank, count = line.rstrip("\r").rpartition(" ")
        if not (piece and blank and count.isdecimal()) or BLANKS.search(piece):
            problems.append(
                f"{path}, line {number}: {line[:60]!r} is not 'piece count': a piece, a space and a number."
            )
        elif piece in reserved:
            problems.append(f"{path}, line {number}: '{piece}' is the name of a special token and cannot be a piece.")
        elif piece in line_of:
            problems.append(f"{path}, line {number}: the piece '{piece}' is already on line {line_of[piece]}.")
        else:
            line_of[piece] = number
    if not line_of and not problems:
        problems.append(f"{path} is empty. A dictionary has lines of 'piece count'.")
    raise_problems(problems)
    return list(line_of)


def _read_model(folder: Path, given: Path | None) -> bytes | None:
    if given is not None:
        if not given.is_file():
            raise InputError(f"The sentencepiece model {absent(given)}")
        return given.read_bytes()
    found = sorted(folder.glob(MODEL_PATTERN))
    if len(found) > 1:
        raise InputError(
            f"{folder} contains several sentencepiece models ({listed(file.name for file in found)}); it is unclear "
            "which one belongs to the dictionary. Remove all but one."
        )
    return found[0].read_bytes() if found else None


def _serialise(vocabulary: dict[str, int]) -> str:
    """The content of a tokenizer.json, which the package `tokenizers` can load for text split into pieces."""
    specials = [
        {"id": vocabulary[name], "content": name, "special": True, "normalized": False}
        | {"single_word": False, "lstrip": False, "rstrip": False}
        for name in LAB_SPECIAL_TOKENS
    ]
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": specials,
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": LAB_UNKNOWN},
    }
    return json.dumps(content, ensure_ascii=False)


def _rebuild(serialised: str, origin: str, model: bytes | None) -> LabTokenizer:
    return LabTokenizer(serialised, origin=origin, model=model)


def _is_pieces(text: str) -> bool:
    return text.lstrip(" \t\r\n\ufeff").startswith(SPACE)


def _split(text: str) -> list[str]:
    return [piece for piece in BLANKS.split(text) if piece]


def _is_symbol(processor: Any, id: int) -> bool:
    return processor.is_control(id) or processor.is_unknown(id)
