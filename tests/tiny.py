"""Tiny models that train in a second, and texts of a small grammar, shared by the tests."""

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from headswap.batches.batch import Batch, flat_batch
from headswap.batches.config import MaskingSettings
from headswap.batches.sentence_pairs import Pair, Segment
from headswap.batches.windows import Pieces
from headswap.core.random_streams import Draws, numpy_stream
from headswap.model.attention import SequenceLayout
from headswap.model.shape import PRESETS, BaseShape, HeadShape
from headswap.model.text_model import ModelShape
from headswap.objectives.objective import PretrainingObjective, make_objective

TINY_LAYERS: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
}
ONE_LAYER: dict[str, Any] = {**TINY_LAYERS, "num_hidden_layers": 1, "intermediate_size": 32}
TINY = {**TINY_LAYERS, "max_position_embeddings": 40}
ONE_THREAD: dict[str, Any] = {"device": "cpu", "threads": 1}
PRETRAIN: dict[str, Any] = {"preset": "lab", **TINY_LAYERS, **ONE_THREAD, "max_length": 24, "batch_size": 8}
"""Settings of a tiny pre-training run; a limit is missing."""
SCRATCH: dict[str, Any] = {
    "base": "scratch", "preset": "lab", **TINY_LAYERS, **ONE_THREAD, "max_length": 24, "learning_rate": 3e-3,
}  # fmt: skip
"""Settings of a tiny fine-tuning run from scratch; the training set is missing."""
TINY_SETTINGS: dict[str, Any] = {**TINY_LAYERS, **ONE_THREAD, "max_length": 40, "batch_size": 8}
"""The same shape as flat settings of `hs.pretrain`, on one thread of a CPU."""
SMALL: dict[str, Any] = {**ONE_LAYER, **ONE_THREAD, "max_length": 24}
"""One layer, for tests of the Python interface."""
STORY_SETTINGS = TINY_SETTINGS | {"max_length": 48}
"""For the longer documents of the fixture `stories`."""
NUM_LABELS = {"classify": 3, "compare": 3, "tag": 3, "span": 2}
OPTIONS: dict[str, tuple[str, dict[str, object]]] = {
    "shared keys": ("llama", {"num_key_value_heads": 1, "rope_theta": 500.0}),
    "shared keys with biases": ("small", {"num_key_value_heads": 1}),
    "transform": ("bert-base", {"lm_head_transform": "gelu"}),
    "rms after the blocks": ("lab", {"normalization": "rms", "lm_head_transform": "relu"}),
}
"""Options of a base that no preset has."""
GOOD = ["fine", "lovely", "superb", "warm", "bright", "moving"]
BAD = ["dull", "awful", "clumsy", "cold", "grey", "boring"]
NOUNS = ["film", "story", "actor", "scene", "ending", "music", "camera", "dialogue"]


def tiny_shape(preset: str = "small", *, vocab_size: int = 61, **changes: object) -> BaseShape:
    """A preset in a size that trains in a second."""
    return BaseShape.model_validate({**PRESETS[preset], **TINY, "vocab_size": vocab_size, "dropout": 0.0, **changes})


def tiny_model_shape(
    preset: str = "small", *, head: str = "lm", direction: str = "causal", pooling: str = "mean", **changes: object
) -> ModelShape:
    """A base of this size with a head."""
    return ModelShape(
        base=tiny_shape(preset, **changes),
        head=head,
        direction=direction,
        num_labels=NUM_LABELS.get(head),
        classifier=HeadShape(pooling=pooling, head_dropout=0.0),
    )


def random_sequences(lengths: list[int], *, vocab_size: int = 61, seed: int = 0) -> list[np.ndarray]:
    """Token ids drawn from a seed."""
    stream = numpy_stream(seed, "test sequences")
    return [stream.integers(0, vocab_size, length) for length in lengths]


def tiny_objective(name: str = "causal", *, vocab_size: int = 61, **masking: object) -> PretrainingObjective:
    """A pre-training objective for the ids of `random_sequences`; the first six ids are special tokens."""
    ids = dict(zip(("sos_id", "pad_id", "eos_id", "unk_id", "mask_id", "sep_id"), range(6), strict=True))
    tokenizer: Any = SimpleNamespace(**ids, special_ids=frozenset(range(6)), vocab_size=vocab_size)
    return make_objective(name, tokenizer, MaskingSettings.model_validate(masking))


def pieces_of(streams: list[np.ndarray], first_document: int = 0) -> Pieces:
    """Whole streams as pieces, one per document; every token begins a word."""
    lengths = np.array([len(stream) - 1 for stream in streams])
    return Pieces(
        ids=np.concatenate([stream[:-1] for stream in streams]).astype(np.int64),
        next_ids=np.concatenate([stream[1:] for stream in streams]).astype(np.int64),
        lengths=lengths,
        documents=np.arange(len(streams)) + first_document,
        starts=np.zeros(len(streams), dtype=np.int64),
        word_starts=np.ones(lengths.sum(), dtype=bool),
    )


def tiny_batch(
    name: str,
    sequences: list[np.ndarray],
    *,
    vocab_size: int = 61,
    step: int = 0,
    first_document: int = 0,
    **masking: object,
) -> Batch:
    """A batch of an objective; for pairs each sequence is split in the middle and every second pair is negative."""
    words = np.array([True])
    pieces: Any = pieces_of(sequences, first_document)
    objective = tiny_objective(name, vocab_size=vocab_size, **masking)
    if objective.num_segments:
        pieces = [
            Pair(
                Segment(number, 0, ids[: len(ids) // 2], np.resize(words, len(ids) // 2)),
                Segment(number, len(ids) // 2, ids[len(ids) // 2 :], np.resize(words, len(ids) - len(ids) // 2)),
                number % 2 == 0,
            )
            for number, ids in enumerate(sequences, first_document)
        ]
    return objective.make_batch(pieces, Draws(0, "mask", step))


def sentences(count: int, *, seed: int = 0) -> list[tuple[str, str]]:
    """(text, label): sentences of a small grammar whose adjectives determine the label."""
    stream = numpy_stream(seed, "test sentences")
    rows = []
    for number in range(count):
        label = "pos" if number % 2 else "neg"
        words = GOOD if label == "pos" else BAD
        clauses = [f"the {stream.choice(NOUNS)} was {stream.choice(words)}" for _ in range(int(stream.integers(1, 4)))]
        rows.append((f"{' and '.join(clauses)} .", label))
    return rows


def write_labelled(file: Path, count: int, *, seed: int = 1) -> Path:
    """A labelled JSONL file of the small grammar."""
    rows = [json.dumps({"text": text, "label": label}) for text, label in sentences(count, seed=seed)]
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return file


def layout_of(lengths: list[int], *, causal: bool) -> SequenceLayout:
    """The attention layout of a flat batch with these sequence lengths."""
    return SequenceLayout(lengths, torch.tensor(lengths), num_tokens=sum(lengths), longest=max(lengths), causal=causal)


@dataclass
class Changing:
    """A different batch at every step: other texts, lengths and masked tokens."""

    kind: str

    def micro_batches(self, step: int, *, count: int) -> list[Batch]:
        rng = np.random.default_rng(step)
        if self.kind == "classify":
            sequences = random_sequences(rng.integers(3, 30, 4).tolist(), seed=step)
            return [flat_batch(sequences, target_index=np.arange(4), target_value=rng.integers(0, 3, 4))]
        cuts = np.sort(rng.choice(np.arange(2, 60, 2), 2, replace=False))
        return [tiny_batch(self.kind, random_sequences(np.diff([0, *cuts, 60]).tolist(), seed=step), step=step)]
