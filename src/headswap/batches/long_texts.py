"""Texts longer than a base can read, and pairs of texts: what of them becomes a sequence.

`truncate` keeps the beginning; `head+tail` keeps the first quarter and the last three (Sun et al. 2019 found this best
on long reviews); `windows` keeps everything, in windows of full length that overlap. What is lost is always counted.
"""

from typing import Protocol

import numpy as np

from headswap.batches.config import Long

HEAD_SHARE = 0.25
OVERLAP_SHARE = 0.25


class Marks(Protocol):
    """The special tokens that sequences are made with."""

    sos_id: int
    sep_id: int | None


def window_spans(length: int, room: int, overlap: int | None) -> list[tuple[int, int]]:
    """(start, end) of windows of `room` over `length` items; the last is moved back so that it is full, too."""
    if length <= room:
        return [(0, length)]
    shared = min(int(room * OVERLAP_SHARE) if overlap is None else overlap, room - 1)
    starts = [*range(0, length - room, room - shared), length - room]
    return [(start, start + room) for start in starts]


def cut_text(ids: np.ndarray, marks: Marks, *, max_length: int, long: Long, overlap: int | None) -> list[np.ndarray]:
    """The sequences of a text, `<sos>` first: one, or with `windows` as many as it takes."""
    room = max_length - 1
    if len(ids) <= room or long == "truncate":
        parts = [ids[:room]]
    elif long == "head+tail":
        head = int(room * HEAD_SHARE)
        parts = [np.concatenate((ids[:head], ids[len(ids) - (room - head) :]))]
    else:
        parts = [ids[start:end] for start, end in window_spans(len(ids), room, overlap)]
    return [np.concatenate((np.array([marks.sos_id]), part)) for part in parts]


def join_pair(
    first: np.ndarray, second: np.ndarray, marks: Marks, *, max_length: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """`<sos> first <sep> second`, its segments (0 up to `<sep>`, then 1), and how many tokens the longer one lost."""
    assert marks.sep_id is not None
    room = max_length - 2
    lost = max(0, len(first) + len(second) - room)
    if lost:
        kept = min(len(first), max(room - len(second), (room + 1) // 2))
        first, second = first[:kept], second[: room - kept]
    ids = np.concatenate(([marks.sos_id], first, [marks.sep_id], second)).astype(np.int64)
    segments = (np.arange(len(ids)) >= len(first) + 2).astype(np.int64)
    return ids, segments, lost


def home_windows(positions: np.ndarray, spans: list[tuple[int, int]]) -> np.ndarray:
    """Of each position the window that shows most context on its shorter side: every one has exactly one home."""
    starts, ends = np.array(spans).T
    context = np.minimum(positions[:, None] - starts, ends - 1 - positions[:, None])
    return context.argmax(axis=1)
