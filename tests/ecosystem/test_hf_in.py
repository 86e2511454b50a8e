"""Checkpoints of every family compute in headswap what they compute in transformers."""

from pathlib import Path

import numpy as np
import pytest
import torch

transformers = pytest.importorskip("transformers", reason="pip install -c constraints.txt transformers")

from ecosystem.stock_models import TEXTS, TOKENIZERS, save_checkpoint
from headswap.batches.batch import flat_batch
from headswap.batches.long_texts import join_pair
from headswap.bundle.bundle import Bundle
from headswap.inference.generate.config import SamplingSettings
from headswap.inference.generate.fill import Filler
from headswap.inference.generate.generator import Generator

CAUSAL = ("gpt2", "llama", "mistral")
TOLERANCE = 1e-4
SENTENCES = [*TEXTS[:3], "Ünknown wörds, (and) 3 numbers!", "a"]


@torch.no_grad()
def logits_of(model: torch.nn.Module, sequences: list[list[int]]) -> list[torch.Tensor]:
    """What transformers computes, one sequence at a time, without padding."""
    return [model(input_ids=torch.tensor([ids])).logits[0] for ids in sequences]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", TOKENIZERS)
def test_hidden_states_and_logits_equal_those_of_transformers(kind: str, seed: int, tmp_path: Path) -> None:
    auto = "AutoModelForCausalLM" if kind in CAUSAL else "AutoModelForMaskedLM"
    theirs = save_checkpoint(tmp_path, kind, seed, auto)
    bundle = Bundle.load(f"hf:{tmp_path}")
    ids = transformers.AutoTokenizer.from_pretrained(tmp_path)(SENTENCES)["input_ids"]
    ours = [bundle.tokenizer.frame.around(one).tolist() for one in bundle.tokenizer.encode_batch(SENTENCES)]
    assert ours == ids
    batch = flat_batch([np.array(one) for one in ids])
    with torch.no_grad():
        hidden, logits = bundle.model.hidden(batch), bundle.model(batch)
        base = getattr(theirs, theirs.base_model_prefix)
        expected = torch.cat([base(input_ids=torch.tensor([one])).last_hidden_state[0] for one in ids])
    torch.testing.assert_close(hidden, expected, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(logits, torch.cat(logits_of(theirs, ids)), atol=TOLERANCE, rtol=1e-5)


@pytest.mark.parametrize("kind", CAUSAL)
def test_generated_tokens_equal_those_of_transformers(kind: str, tmp_path: Path) -> None:
    theirs = save_checkpoint(tmp_path, kind, 1, "AutoModelForCausalLM")
    bundle = Bundle.load(f"hf:{tmp_path}")
    ids = transformers.AutoTokenizer.from_pretrained(tmp_path)(["the film was"], return_tensors="pt")["input_ids"]
    with torch.no_grad():
        expected = theirs.generate(ids, max_new_tokens=12, do_sample=False, pad_token_id=0)[0, ids.shape[1] :].tolist()
    settings = SamplingSettings(max_new_tokens=12, temperature=0.0)
    assert list(Generator(bundle).tokens("the film was", settings)) == expected


@pytest.mark.parametrize("kind", ["bert", "roberta", "llama"])
def test_pairs_of_texts_have_the_ids_and_segments_of_transformers(kind: str, tmp_path: Path) -> None:
    auto = "AutoModelForCausalLM" if kind in CAUSAL else "AutoModelForMaskedLM"
    save_checkpoint(tmp_path, kind, 0, auto)
    tokenizer = Bundle.load(f"hf:{tmp_path}").tokenizer
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)("the film", "was warm", return_token_type_ids=True)
    first, second = tokenizer.encode_batch(["the film", "was warm"])
    ids, segments, lost = join_pair(first, second, tokenizer.frame, max_length=60)
    assert ids.tolist() == theirs["input_ids"]
    assert lost == 0
    if kind == "bert":  # the others have no segments
        assert segments.tolist() == theirs["token_type_ids"]


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert"])
def test_masks_are_filled_as_by_the_pipeline(kind: str, tmp_path: Path) -> None:
    save_checkpoint(tmp_path, kind, 2)
    bundle = Bundle.load(f"hf:{tmp_path}")
    assert bundle.tokenizer.mask_id is not None
    mask = bundle.tokenizer.piece(bundle.tokenizer.mask_id)
    every = transformers.pipeline("fill-mask", str(tmp_path), device="cpu", top_k=100)(f"the {mask} was warm")
    theirs = [one for one in every if one["token"] not in bundle.tokenizer.special_ids][:5]
    ours = Filler(bundle).fill("the <mask> was warm").masks[0]
    assert [one.token.strip() for one in ours] == [bundle.tokenizer.decode([one["token"]]).strip() for one in theirs]
    assert Filler(bundle).fill(f"the {mask} was warm").masks[0] == ours


def test_a_model_without_a_frame_generates_from_an_empty_prompt(tmp_path: Path) -> None:
    theirs = save_checkpoint(tmp_path, "gpt2", 4, "AutoModelForCausalLM")
    bundle = Bundle.load(f"hf:{tmp_path}")
    start = torch.tensor([[bundle.tokenizer.sos_id]])
    with torch.no_grad():
        expected = theirs.generate(start, max_new_tokens=5, do_sample=False, pad_token_id=0)[0, 1:].tolist()
    assert list(Generator(bundle).tokens("", SamplingSettings(max_new_tokens=5))) == expected
