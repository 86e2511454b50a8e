"""Row 6: greedy continuation by 200 tokens, one prompt and eight."""

from typing import Any

import torch

from headswap.bundle.bundle import Bundle
from headswap.inference.generate.config import SamplingSettings
from headswap.inference.generate.generator import Generator
from headswap.model.text_model import build_model

from .contest import Side, Work
from .peers import hf_causal
from .row import Measured, Setting, Target, contest
from .shapes import lab_shape, model_shape
from .texts import text_of, tokenizer


def generate(setting: Setting) -> list[Measured]:
    """The lab's shape; `<eos>` is never chosen, so that both sides generate all tokens."""
    count = 8 if setting.is_tiny else 200
    words = tokenizer(2_000 if setting.is_tiny else 16_000)
    base = lab_shape(words.vocab_size)
    found = []
    for batch in (1, 8):
        prompts = [text_of(12, seed) for seed in range(batch)]
        sides = [
            Side("headswap", lambda prompts=prompts: our_tokens(base, words, prompts, count, setting.device)),
            Side("HF generate", lambda prompts=prompts: hf_tokens(base, words, prompts, count, setting.device)),
        ]
        targets = [Target("HF generate", 2.0)] if batch == 1 or setting.device == "cuda" else []
        weights = 4 * (base.num_hidden_layers * (4 * 200**2 + 2 * 200**2) + base.vocab_size * base.hidden_size)
        floor = f"{weights / 1e6:.1f} MB of weights are read for every token (float32)"
        title = f"{count} tokens, batch {batch}, V = {base.vocab_size:,}"
        found.append(contest(title, sides, setting, targets=targets, floor=floor))
    return found


def our_tokens(base: Any, words: Any, prompts: list[str], count: int, device: str) -> Work:
    """As `Model.generate` does it."""
    model = build_model(model_shape(base), seed=0).to(device)
    with torch.no_grad():
        assert model.head.bias is not None
        model.head.bias[words.eos_id] = -1e4
    generator = Generator(Bundle(model, words))
    settings = SamplingSettings(max_new_tokens=count, temperature=0.0)

    def work() -> float:
        made = sum(answer.num_tokens for answer in generator.continue_texts(prompts, settings))
        assert made == count * len(prompts)
        return float(made)

    return work


def hf_tokens(base: Any, words: Any, prompts: list[str], count: int, device: str) -> Work:
    """transformers' generate with its cache."""
    model = hf_causal(base).eval().to(device)
    model.config.use_cache = model.generation_config.use_cache = True
    rows = [[words.sos_id, *words.encode(prompt).tolist()] for prompt in prompts]
    longest = max(map(len, rows))
    ids = torch.tensor(
        [[words.pad_id] * (longest - len(row)) + row for row in rows], device=device
    )  # padded on the left, as it requires
    mask = (ids != words.pad_id).long()

    def work() -> float:
        with torch.inference_mode():
            made = model.generate(
                input_ids=ids, attention_mask=mask, max_new_tokens=count, min_new_tokens=count, do_sample=False,
                pad_token_id=words.pad_id,
            )  # fmt: skip
            words.decode(made[0].tolist())
        return float((made.shape[1] - longest) * len(rows))

    return work
