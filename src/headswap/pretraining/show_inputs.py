"""Example rows with their masks and targets as text, to make errors in the data visible."""

from headswap.batches.batch import Batch
from headswap.tokens.tokenizer import Tokenizer

MOST_TOKENS = 40


def shown_inputs(batch: Batch, tokenizer: Tokenizer, *, count: int = 2) -> list[str]:
    """The first sequences of a batch, one line each: `token -> target`, or `token[target]` if few have targets."""
    lines, start = [], 0
    targets = dict(zip(batch.target_index_T.tolist(), batch.target_value_T.tolist(), strict=True))
    for number, length in enumerate(batch.lengths[:count]):
        ids = batch.ids_N[start : start + min(length, MOST_TOKENS)].tolist()
        if len(targets) == batch.num_tokens:  # causal: every token has a target
            words = [f"{_word(id, tokenizer)} -> {_word(targets[start + at], tokenizer)}" for at, id in enumerate(ids)]
            line = " | ".join(words[: MOST_TOKENS // 4])
        else:
            line = " ".join(
                _word(id, tokenizer) + (f"[{_word(targets[start + at], tokenizer)}]" if start + at in targets else "")
                for at, id in enumerate(ids)
            )
        if batch.pair_target_B is not None:
            line = f"({'true' if batch.pair_target_B[number] else 'false'} pair) {line}"
        lines.append(f"{line}{' ...' if length > len(ids) else ''}")
        start += length
    return lines


def _word(id: int, tokenizer: Tokenizer) -> str:
    """A token as text; a piece that is not valid text is shown as it is in the vocabulary."""
    text = tokenizer.decode([id], show_specials=True).strip()
    return text if text and "\ufffd" not in text else tokenizer.piece(id)
