"""Sequences from texts that exceed the length limit, and from pairs of texts.

`truncate` keeps the beginning. `head+tail` fills a quarter of the length from the beginning of the text and three
quarters from its end (Sun et al. 2019 found this best on long reviews). `windows` keeps everything, in overlapping
windows of full length. The tokens that are cut off are counted.
"""

from typing import Protocol

import numpy as np

from headswap.batches.config import Long

HEAD_SHARE = 0.25
OVERLAP_SHARE = 0.25


class Marks(Protocol):
    """The special tokens that sequences contain."""

    sos_id: int
    sep_id: int | None


def window_spans(length: int, room: int, overlap: int | None) -> list[tuple[int, int]]:
    """(start, end) of windows of `room` over `length` tokens; the last one starts earlier, so that it is full too."""
    if length <= room:
        return [(0, length)]
    shared = min(int(room * OVERLAP_SHARE) if overlap is None else overlap, room - 1)
    starts = [*range(0, length - room, room - shared), length - room]
    return [(start, start + room) for start in starts]


def cut_text(ids: np.ndarray, marks: Marks, *, max_length: int, long: Long, overlap: int | None) -> list[np.ndarray]:
    """The sequences of a text, each beginning with `<sos>`: one, or several with `windows`."""
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
    """`<sos> first <sep> second`, its segments (0 up to `<sep>`, then 1), and the number of tokens cut off.

    The longer of the two texts is cut first.
    """
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
    """For each position the index of one window: the one with the most context on the position's shorter side."""
    starts, ends = np.array(spans).T
    context = np.minimum(positions[:, None] - starts, ends - 1 - positions[:, None])
    return context.argmax(axis=1)
