"""A few inputs as the model sees them, masks and targets visible: the look that finds a broken data path."""

from headswap.batches.batch import Batch
from headswap.tokens.tokenizer import Tokenizer

MOST_TOKENS = 40


def shown_inputs(batch: Batch, tokenizer: Tokenizer, *, count: int = 2) -> list[str]:
    """The first sequences of a batch, one line each: what stands where, and `[target]` behind what is to be named."""
    lines, start = [], 0
    targets = dict(zip(batch.target_index_T.tolist(), batch.target_value_T.tolist(), strict=True))
    for number, length in enumerate(batch.lengths[:count]):
        ids = batch.ids_N[start : start + min(length, MOST_TOKENS)].tolist()
        if len(targets) == batch.num_tokens:  # every token's target is the next token
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
    """A token as it reads; pieces that are no text of their own are shown as the vocabulary has them."""
    text = tokenizer.decode([id], show_specials=True).strip()
    return text if text and "\ufffd" not in text else tokenizer.piece(id)
