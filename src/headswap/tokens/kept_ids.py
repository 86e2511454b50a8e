"""Token ids of labelled texts that are encoded again: a worker of a study encodes each text once, not once per job.

Encoding a test set can take longer than a small fine-tuning. Ids are found by a hash of the text and the fingerprint of
the tokenizer, so equal texts of other files and other subsets are found too.
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from headswap.core.kept_inputs import Kept, keeps_inputs
from headswap.tokens.tokenizer import Tokenizer

BYTES_PER_TEXT = 300
"""Memory of an entry besides its ids."""
KEPT: Kept[np.ndarray] = Kept(256 * 2**20)


def encode_kept(tokenizer: Tokenizer, texts: Sequence[str]) -> list[np.ndarray]:
    """The ids of each text; in a process that keeps inputs, known texts are not encoded again."""
    if not keeps_inputs():
        return tokenizer.encode_batch(texts)
    keys = [(tokenizer.fingerprint, _digest(text)) for text in texts]
    ids = {key: found for key in keys if (found := KEPT.find(key)) is not None}
    new = {key: text for key, text in zip(keys, texts, strict=True) if key not in ids}
    for key, encoded in zip(new, tokenizer.encode_batch(list(new.values())) if new else [], strict=True):
        encoded.setflags(write=False)  # later jobs get the same array
        KEPT.add(key, encoded, encoded.nbytes + BYTES_PER_TEXT)
        ids[key] = encoded
    return [ids[key] for key in keys]


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
