"""A space of texts from an unlabelled corpus: TF-IDF of its words and a truncated SVD (latent semantic analysis).

It is fitted on the corpus that bases are pre-trained on and on nothing else, so a linear model in this space uses the
same unlabelled text as a pre-trained arm. Labels and test texts are not used. It is saved as arrays and JSON.

Memory and time are bounded: a larger corpus is represented by a fixed random sample of its documents, of a long
document the beginning is read, and the most frequent words are kept. The SVD is randomized with a fixed seed and runs
in one thread, so the same corpus gives the same bits on the same machine, whatever the number of threads of a job.
"""

import hashlib
import heapq
import logging
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headswap.core.errors import InputError
from headswap.core.files import atomic_file, read_json, write_json
from headswap.core.manifest import MANIFEST, manifest_problems

log = logging.getLogger("headswap")
VERSION = 1
"""Part of a study's job ids: raise it when the vectors change."""
DIMENSIONS = 200
MOST_DOCUMENTS = 20_000
MOST_CHARACTERS = 5_000  # of one document
MOST_WORDS = 20_000
SEED = 0
EXTRA_DIMENSIONS = 10  # of the randomized SVD, with its usual number of iterations
ITERATIONS = 4
ARRAYS, WORDS = "space.npz", "words.json"


@dataclass(frozen=True)
class TextSpace:
    """The words of a corpus, their IDF weights, and the directions (dimensions x words) that texts are projected on."""

    words: tuple[str, ...]
    idf: np.ndarray
    directions: np.ndarray

    @classmethod
    def fit(cls, texts: Iterable[str]) -> tuple["TextSpace", dict[str, Any]]:
        """The space of a corpus, and how many documents and words it was made of."""
        from sklearn.utils.extmath import randomized_svd
        from threadpoolctl import threadpool_limits

        sample, facts = sample_texts(texts)
        with threadpool_limits(1):
            vectorizer, features = _fitted(sample)
            dimensions = min(DIMENSIONS, min(features.shape))
            _, _, directions = randomized_svd(
                features, dimensions, n_oversamples=EXTRA_DIMENSIONS, n_iter=ITERATIONS, random_state=SEED
            )
        words = tuple(vectorizer.get_feature_names_out().tolist())
        space = cls(words, vectorizer.idf_.astype(np.float32), directions.astype(np.float32))
        return space, {**facts, "num_words": len(words), "dimensions": dimensions}

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """One vector of length 1 per text; a text without a known word has zeros."""
        from threadpoolctl import threadpool_limits

        vectorizer = _vectorizer(vocabulary={word: number for number, word in enumerate(self.words)})
        vectorizer.idf_ = self.idf
        with threadpool_limits(1):
            found = np.asarray(vectorizer.transform(texts) @ self.directions.T, dtype=np.float64)
        length = np.linalg.norm(found, axis=1, keepdims=True)
        return found / np.where(length > 0, length, 1.0)

    @property
    def fingerprint(self) -> str:
        """A hash of the words and the arrays."""
        digest = hashlib.sha256("\n".join(self.words).encode())
        for array in (self.idf, self.directions):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:32]

    def save(self, folder: Path) -> None:
        """Write the arrays and the words."""
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(folder / ARRAYS) as temporary, temporary.open("wb") as file:
            np.savez(file, idf=self.idf, directions=self.directions)
        write_json(folder / WORDS, list(self.words))

    @classmethod
    def load(cls, folder: Path) -> "TextSpace":
        """The space of a folder; a damaged file is an error."""
        problems = manifest_problems(folder) if (folder / MANIFEST).exists() else []
        try:
            words = tuple(read_json(folder / WORDS))
            with np.load(folder / ARRAYS, allow_pickle=False) as arrays:
                space = cls(words, arrays["idf"], arrays["directions"])
            is_sound = space.idf.shape == (len(words),) and space.directions.shape[1:] == (len(words),)
        except Exception:  # zipfile, zlib and NumPy raise a dozen types of errors for damaged bytes
            is_sound = False
        if problems or not is_sound:
            why = problems[0] if problems else f"{folder} holds no valid space of texts."
            raise InputError(f"{why} Remove the folder; the same study fits it again.")
        return space


def sample_texts(texts: Iterable[str]) -> tuple[list[str], dict[str, Any]]:
    """At most `MOST_DOCUMENTS` documents in their order, each cut to its first characters; and their numbers.

    A document is kept if its random number is among the smallest, so a stream of any length is read once.
    """
    stream = random.Random(SEED)
    kept: list[tuple[float, int, str]] = []
    number = num_cut = -1
    for number, text in enumerate(texts):
        item = (-stream.random(), number, text[:MOST_CHARACTERS])
        if len(kept) < MOST_DOCUMENTS:
            heapq.heappush(kept, item)
        elif item > kept[0]:
            heapq.heapreplace(kept, item)
        num_cut += len(text) > MOST_CHARACTERS
    total, num_cut = number + 1, num_cut + 1
    if total > MOST_DOCUMENTS:
        log.info("lsa: fitted on a fixed random sample of %s of the %s documents.", f"{MOST_DOCUMENTS:,}", f"{total:,}")
    if num_cut:
        log.info(
            "lsa: of %s of %s documents only the first %s characters are read.",
            f"{num_cut:,}", f"{total:,}", f"{MOST_CHARACTERS:,}",
        )  # fmt: skip
    facts = {"num_documents": total, "num_sampled": len(kept), "num_cut": num_cut}
    return [text for _, _, text in sorted(kept, key=lambda item: item[1])], facts


def _vectorizer(**more: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(sublinear_tf=True, token_pattern=r"(?u)\b\w+\b", dtype=np.float32, **more)


def _fitted(sample: Sequence[str]) -> tuple[Any, Any]:
    """The vectorizer and the features of a sample; words of one document are used only if there are no others."""
    for fewest in (2, 1):
        vectorizer = _vectorizer(min_df=fewest, max_features=MOST_WORDS)
        try:
            return vectorizer, vectorizer.fit_transform(sample)
        except ValueError:  # no word is left
            continue
    raise InputError("lsa is not fitted: the corpus has no words. Leave the arm lsa out with --arms.")
