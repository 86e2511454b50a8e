"""Row 9: time and memory per token with growing corpus, context and vocabulary; each point is measured in a process.

The corpus should make no difference: rows are computed from a memory-mapped store. With the context only attention
grows, with the vocabulary only the head.
"""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from headswap.core.current_folder import new_python
from headswap.tokens.store import TokenStore
from headswap.tokens.store_writer import file_name

from .memory import most_resident
from .ours import SPECIAL, _steps, machine_of
from .row import Measured, Setting
from .shapes import lab_shape, model_shape, random_ids

PROGRAM = "import sys; from bench.row_growth import answer; answer(sys.argv[1])"
TOKENS = 4_096


def growth(setting: Setting) -> list[Measured]:
    """Corpus 1x, 10x, 100x; context 128 to 2048; vocabulary 2,000 to 50,000."""
    times = 0.02 if setting.is_tiny else 1
    series = {
        "corpus, million tokens": [{"corpus": int(size * times * 1e6)} for size in (0.3, 3, 30)],
        "context, tokens": [{"length": length} for length in (128, 512, 2048)],
        "vocabulary": [{"vocab_size": size} for size in (2_000, 10_000, 50_000)],
    }
    found = []
    for title, points in series.items():
        measured = Measured(f"growing {title}", "µs per token")
        for point in points:
            label = f"{next(iter(point.values())):,}"
            microseconds, peak = in_a_process({"device": setting.device, "steps": 3 if setting.is_tiny else 6} | point)
            measured.measures[f"{label}: µs per token"] = microseconds
            measured.measures[f"{label}: peak MB"] = peak / 1e6
        found.append(measured)
    return found


def in_a_process(arguments: dict) -> tuple[float, int]:
    """Microseconds per token and peak bytes of pre-training, in a separate process."""
    with tempfile.TemporaryDirectory() as folder:
        command = new_python("-c", PROGRAM, json.dumps(arguments | {"folder": folder}))
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    microseconds, peak = json.loads(done.stdout.strip().splitlines()[-1])
    return microseconds, peak


def answer(arguments: str) -> None:
    """The program of the process: write a store, map it, train, print."""
    import torch

    given = json.loads(arguments)
    microseconds = measure(**given)
    peak = torch.cuda.max_memory_reserved() if given["device"] == "cuda" else most_resident()
    print(json.dumps([microseconds, peak]))


def measure(
    folder: str, device: str, steps: int, corpus: int = 300_000, length: int = 128, vocab_size: int = 8_000
) -> float:
    """The fastest of the steps after the first two."""
    from types import SimpleNamespace
    from typing import Any

    from headswap.batches.config import MaskingSettings
    from headswap.model.text_model import build_model
    from headswap.objectives.objective import make_objective
    from headswap.pretraining.config import PretrainTraining
    from headswap.pretraining.corpus import RowBatches

    base = lab_shape(vocab_size, max_position_embeddings=max(512, length))
    store = mapped_store(Path(folder), corpus, vocab_size, document=max(500, 2 * length))
    names = dict(zip(SPECIAL, range(6), strict=True))
    tokenizer: Any = SimpleNamespace(**names, special_ids=frozenset(range(6)), vocab_size=vocab_size)
    task = make_objective("causal", tokenizer, MaskingSettings())
    rows = task.rows(store, np.arange(store.num_documents), max_length=length, layout="packed")
    machine = machine_of(device, base)
    model = build_model(model_shape(base), seed=0).to(machine.device)
    batch = TOKENS // length
    settings = PretrainTraining(batch_size=batch, learning_rate=3e-4)
    work = _steps(model, task, RowBatches(rows, task, batch, 0), settings, machine, 1)
    seconds = []
    for _ in range(2 + steps):
        start = time.perf_counter()
        tokens = work()
        seconds.append((time.perf_counter() - start) / tokens)
    return 1e6 * min(seconds[2:])


def mapped_store(folder: Path, num_tokens: int, vocab_size: int, *, document: int) -> TokenStore:
    """A store on disk, written in pieces, so that its size does not add to this process's memory."""
    dtype = np.dtype("<u2")
    piece = random_ids([document] * 200, vocab_size)
    with (folder / file_name("ids")).open("wb") as file:
        for _ in range(max(1, num_tokens // (200 * document))):
            file.write(np.concatenate(piece).astype(dtype).tobytes())
    ids = np.memmap(folder / file_name("ids"), dtype=dtype, mode="r")
    offsets = np.arange(0, len(ids) + 1, document)
    return TokenStore(ids=ids, offsets=offsets, byte_counts=np.full(len(offsets) - 1, 0), fingerprint="bench")
