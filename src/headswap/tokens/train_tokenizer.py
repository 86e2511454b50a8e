"""Training a tokenizer on a corpus.

Slices of the documents (tokenizer_sample.py) are passed to the trainers of Hugging Face `tokenizers`. Two of these
trainers depend on the order of a hash map, so their results vary (huggingface/tokenizers#1794); this module makes them
deterministic, so that the same corpus gives the same fingerprint. At the end the round trip is checked: exact for
byte-level BPE, idempotent for the other kinds.
"""

import json
import logging
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from headswap.core.errors import InputError, RunError, SettingError
from headswap.data.config import ReadSettings
from headswap.data.records import Document
from headswap.tokens.config import TokenizerKind, TokenizerSettings
from headswap.tokens.tokenizer import SPECIAL_TOKENS, Tokenizer, special_token
from headswap.tokens.tokenizer_sample import MAX_TRAINING_BYTES, sample_corpus, sample_documents

log = logging.getLogger("headswap")

NUM_BYTE_PIECES = 256 + len(SPECIAL_TOKENS)
SMALLEST_FITTED, LARGEST_FITTED = 512, 32_768
NUM_CHECKED_TEXTS = 1_000
LARGEST_UNKNOWN_SHARE = 0.05
SCORE_STEP = 1e-4  # min_score_penalty_delta in the unigram trainer of tokenizers


def train_tokenizer(
    documents: Iterable[Document], settings: TokenizerSettings, *, max_bytes: int = MAX_TRAINING_BYTES
) -> Tokenizer:
    """A tokenizer of the kind and size in `settings`, trained on the documents and checked."""
    _check_size(settings)
    return _train_checked(*sample_documents(documents, max_bytes), settings)


def train_on_corpus(
    sources: Sequence[str],
    read: ReadSettings,
    settings: TokenizerSettings,
    beside: Path,
    *,
    executor: str = "local",
    max_bytes: int = MAX_TRAINING_BYTES,
) -> Tokenizer:
    """The same for a corpus; tasks of the executor write to a temporary folder in `beside` (tokenizer_sample.py)."""
    _check_size(settings)
    sample = sample_corpus(sources, read, beside, executor=executor, max_bytes=max_bytes)
    return _train_checked(*sample, settings)


def _check_size(settings: TokenizerSettings) -> None:
    if settings.kind == "bpe" and settings.vocab_size is not None and settings.vocab_size < NUM_BYTE_PIECES:
        raise SettingError(
            f"vocab_size = {settings.vocab_size} is too small for byte-level BPE: the 256 bytes and the "
            f"{len(SPECIAL_TOKENS)} special tokens alone are {NUM_BYTE_PIECES}. Set a larger size, or another kind."
        )


def _train_checked(slices: list[bytes], num_read: int, settings: TokenizerSettings) -> Tokenizer:
    """A tokenizer trained on slices of a corpus with `num_read` bytes of text."""
    if not slices:
        raise InputError("There is no text to train a tokenizer on: the corpus contains no documents.")
    num_bytes = sum(map(len, slices))
    if num_bytes < num_read:
        log.info(
            "The tokenizer is trained on %s of %s MB of text, spread evenly over the corpus.",
            f"{num_bytes / 1e6:,.1f}",
            f"{num_read / 1e6:,.1f}",
        )
    size = settings.vocab_size or fitted_vocab_size(num_bytes)
    tokenizer = Tokenizer(_train(slices, settings.kind, size, lowercase=settings.lowercase))
    if tokenizer.vocab_size < size and settings.vocab_size:
        log.warning(
            "The corpus is too small for a vocabulary of %s: %s reached.", f"{size:,}", f"{tokenizer.vocab_size:,}"
        )
    sample = _sample(slices)
    check_round_trip(tokenizer, sample)
    _warn_of_unknown_tokens(tokenizer, sample)
    return tokenizer


def fitted_vocab_size(num_bytes: int) -> int:
    """The default vocabulary size for a corpus of this many bytes.

    Vocabularies grow roughly with the square root of the text length (Heaps' law). The size is three times the square
    root of the bytes, rounded to a multiple of 64 between 512 and 32,768: 3,008 for 1 MB, 16,448 for 30 MB.
    """
    fitted = 64 * round(3 * math.sqrt(num_bytes) / 64)
    return min(max(fitted, SMALLEST_FITTED), LARGEST_FITTED)


def check_round_trip(tokenizer: Tokenizer, texts: Iterable[str]) -> None:
    """Raise unless decoding restores the texts: exactly for byte-level BPE; for other kinds a second pass is stable."""
    for text in texts:
        if tokenizer.is_byte_level:
            expected, given = tokenizer.normalise(text), _round_trip(tokenizer, text)
        else:
            expected = _round_trip(tokenizer, _without_unknown_words(tokenizer, text))
            given = _round_trip(tokenizer, expected)
        if given != expected:
            where = next((i for i, (a, b) in enumerate(zip(given, expected, strict=False)) if a != b), 0)
            raise RunError(
                f"The tokenizer ({tokenizer.kind}) does not restore its text: {expected[where : where + 40]!r} "
                f"became {given[where : where + 40]!r}. This is a bug; please report it with the text."
            )


def _untrained(kind: TokenizerKind, *, lowercase: bool) -> tokenizers.Tokenizer:
    if kind == "bpe":
        hf = tokenizers.Tokenizer(models.BPE())
        hf.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        hf.decoder = decoders.ByteLevel()
    elif kind == "unigram":
        hf = tokenizers.Tokenizer(models.Unigram())
        # special tokens are entries of the model too; splitting after '<' keeps their names in a text from matching
        cut = pre_tokenizers.Split("<", "merged_with_previous")
        hf.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), cut])
        hf.decoder = decoders.Metaspace()
    else:
        model = models.WordPiece(unk_token="<unk>") if kind == "wordpiece" else models.WordLevel(unk_token="<unk>")
        hf = tokenizers.Tokenizer(model)
        hf.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
        hf.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    if (normalizer := _normalizer(kind, lowercase=lowercase)) is not None:
        hf.normalizer = normalizer
    return hf


def _normalizer(kind: TokenizerKind, *, lowercase: bool) -> Any:
    steps: list[Any] = [normalizers.NFKC()] if kind == "unigram" else []
    if lowercase:
        steps.append(normalizers.Lowercase())
    return normalizers.Sequence(steps) if len(steps) > 1 else next(iter(steps), None)


def _train(slices: list[bytes], kind: TokenizerKind, size: int, *, lowercase: bool) -> str:
    """The serialised trained tokenizer, a deterministic function of the slices."""
    hf = _untrained(kind, lowercase=lowercase)
    specials: list[Any] = [special_token(name) for name in SPECIAL_TOKENS]
    common: dict[str, Any] = {"vocab_size": size, "show_progress": False}
    texts = map(bytes.decode, slices)
    if kind == "bpe":
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        hf.train_from_iterator(texts, trainers.BpeTrainer(special_tokens=specials, initial_alphabet=alphabet, **common))
        return hf.to_str()
    if kind == "word":
        hf.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=specials, **common))
        return hf.to_str()
    normalizer = _normalizer(kind, lowercase=lowercase)  # not hf.normalizer: hf is locked during training

    def normalised(text: str) -> str:
        return normalizer.normalize_str(text) if normalizer else text

    characters, rare = _alphabet(map(normalised, texts), most=(size - len(specials)) // 3)
    blanked = dict.fromkeys(map(ord, rare), " ")
    kept = (normalised(data.decode()).translate(blanked) for data in slices)
    if kind == "wordpiece":
        # listed first, the inner characters get fixed ids; the trainer would number them in the order of a hash map
        inner = [f"##{c}" for c in characters if len(hf.pre_tokenizer.pre_tokenize_str(f"a{c}")) == 1]
        common |= {"initial_alphabet": characters, "limit_alphabet": len(characters)}
        hf.train_from_iterator(kept, trainers.WordPieceTrainer(special_tokens=[*specials, *inner], **common))
        return _stable_wordpiece(hf.to_str())
    hf.train_from_iterator(kept, trainers.UnigramTrainer(special_tokens=specials, unk_token="<unk>", **common))
    return _stable_unigram(hf.to_str())


def _alphabet(texts: Iterable[str], *, most: int) -> tuple[list[str], str]:
    """The most frequent characters in the order of their code points, and the rare ones that are left out."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    ranked = sorted((c for c in counts if not c.isspace()), key=lambda c: (-counts[c], c))
    rare = "".join(ranked[most:])
    if rare:
        log.info(
            "The corpus has %s different characters; the rarest %s do not fit into the vocabulary and become <unk>.",
            f"{len(ranked):,}",
            f"{len(rare):,}",
        )
    return sorted(ranked[:most]), rare


def _stable_wordpiece(serialised: str) -> str:
    """The serialised tokenizer in which only the real special tokens are marked as special."""
    content = json.loads(serialised)
    content["added_tokens"] = content["added_tokens"][: len(SPECIAL_TOKENS)]
    return json.dumps(content, ensure_ascii=False)


def _stable_unigram(serialised: str) -> str:
    """Round scores, so that the order of summation has no effect, and give characters added for coverage one score.

    The trainer adds such characters at the lowest score, with small increments in the order of a hash map.
    """
    content = json.loads(serialised)
    vocabulary = content["model"]["vocab"]
    specials, pieces = vocabulary[: len(SPECIAL_TOKENS)], vocabulary[len(SPECIAL_TOKENS) :]
    lowest = min(score for _, score in pieces)
    steps_above = {_num_steps(score - lowest) for piece, score in pieces if len(piece) == 1}
    top = next(number for number in count() if number + 1 not in steps_above)
    stable = [
        [piece, round(lowest if len(piece) == 1 and score - lowest < (top + 0.5) * SCORE_STEP else score, 6)]
        for piece, score in pieces
    ]
    content["model"]["vocab"] = specials + sorted(stable, key=lambda entry: (-entry[1], entry[0]))
    return json.dumps(content, ensure_ascii=False)


def _num_steps(height: float) -> int | None:
    number = round(height / SCORE_STEP)
    return number if abs(height / SCORE_STEP - number) < 1e-4 else None


def _sample(slices: Sequence[bytes]) -> list[str]:
    """Texts evenly spaced over all slices."""
    step = -(-len(slices) // NUM_CHECKED_TEXTS)
    return [data.decode() for data in slices[::step]]


def _round_trip(tokenizer: Tokenizer, text: str) -> str:
    return tokenizer.decode(tokenizer.encode(text))


def _without_unknown_words(tokenizer: Tokenizer, text: str) -> str:
    """The text without unknown words, which decoding cannot restore."""
    words = text.split()
    pairs = zip(words, tokenizer.encode_batch(words), strict=True)
    return " ".join(word for word, ids in pairs if tokenizer.unk_id not in ids)


def _warn_of_unknown_tokens(tokenizer: Tokenizer, texts: Sequence[str]) -> None:
    encoded = tokenizer.encode_batch(texts)
    unknown = sum(int((ids == tokenizer.unk_id).sum()) for ids in encoded)
    total = sum(map(len, encoded))
    if total and unknown / total > LARGEST_UNKNOWN_SHARE:
        log.warning("%.0f %% of the tokens of the corpus are unknown to this tokenizer (<unk>).", 100 * unknown / total)
