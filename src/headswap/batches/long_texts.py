"""Sequences from texts that exceed the length limit, and from pairs of texts.

`truncate` keeps the beginning. `head+tail` fills a quarter of the length from the beginning of the text and three
quarters from its end (Sun et al. 2019 found this best on long reviews). `windows` keeps everything, in overlapping
windows of full length. The tokens that are cut off are counted.
"""

import numpy as np

from headswap.batches.config import Long
from headswap.tokens.frame import Frame

HEAD_SHARE = 0.25
OVERLAP_SHARE = 0.25


def window_spans(length: int, room: int, overlap: int | None) -> list[tuple[int, int]]:
    """(start, end) of windows of `room` over `length` tokens; the last one starts earlier, so that it is full too."""
    if length <= room:
        return [(0, length)]
    shared = min(int(room * OVERLAP_SHARE) if overlap is None else overlap, room - 1)
    starts = [*range(0, length - room, room - shared), length - room]
    return [(start, start + room) for start in starts]


def cut_text(ids: np.ndarray, frame: Frame, *, max_length: int, long: Long, overlap: int | None) -> list[np.ndarray]:
    """The sequences of a text, each with the special tokens around it: one, or several with `windows`."""
    room = max_length - frame.num_single
    if len(ids) <= room or long == "truncate":
        parts = [ids[:room]]
    elif long == "head+tail":
        head = int(room * HEAD_SHARE)
        parts = [np.concatenate((ids[:head], ids[len(ids) - (room - head) :]))]
    else:
        parts = [ids[start:end] for start, end in window_spans(len(ids), room, overlap)]
    return [frame.around(part) for part in parts]


def join_pair(
    first: np.ndarray, second: np.ndarray, frame: Frame, *, max_length: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """The sequence of a pair, such as `<sos> first <sep> second`, its segments (0 up to the second text, then 1), and
    the number of tokens cut off.

    The longer of the two texts is cut first.
    """
    assert frame.between
    room = max_length - frame.num_pair
    lost = max(0, len(first) + len(second) - room)
    if lost:
        kept = min(len(first), max(room - len(second), (room + 1) // 2))
        first, second = first[:kept], second[: room - kept]
    ids = frame.around_pair(first, second)
    begin = len(frame.before) + len(first) + len(frame.between)
    segments = (np.arange(len(ids)) >= begin).astype(np.int64)
    return ids, segments, lost


def home_windows(positions: np.ndarray, spans: list[tuple[int, int]]) -> np.ndarray:
    """For each position the index of one window: the one with the most context on the position's shorter side."""
    starts, ends = np.array(spans).T
    context = np.minimum(positions[:, None] - starts, ends - 1 - positions[:, None])
    return context.argmax(axis=1)
