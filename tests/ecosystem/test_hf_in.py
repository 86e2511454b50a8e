"""Checkpoints of every family compute in headswap what they compute in transformers."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

transformers = pytest.importorskip("transformers", reason="pip install -c constraints.txt transformers")

from ecosystem.stock_models import TEXTS, TOKENIZERS, random_config, save_checkpoint
from headswap.batches.batch import flat_batch
from headswap.batches.long_texts import join_pair
from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError
from headswap.inference.generate.config import SamplingSettings
from headswap.inference.generate.fill import Filler
from headswap.inference.generate.generator import Generator

CAUSAL = ("gpt2", "llama", "mistral")
ROBERTA = ("roberta", "camembert", "xlm-roberta")
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


@pytest.mark.parametrize("kind", TOKENIZERS)
@torch.no_grad()
def test_the_longest_sequence_has_the_positions_of_transformers(kind: str, tmp_path: Path) -> None:
    theirs = save_checkpoint(tmp_path, kind, 3, "AutoModel")
    bundle = Bundle.load(f"hf:{tmp_path}")
    positions = theirs.config.max_position_embeddings
    assert bundle.max_length == (positions - 2 if kind in ROBERTA else positions)
    ids = np.random.default_rng(0).integers(5, bundle.tokenizer.vocab_size, bundle.max_length)
    expected = theirs(input_ids=torch.tensor(ids)[None]).last_hidden_state[0]
    torch.testing.assert_close(bundle.model.hidden(flat_batch([ids])), expected, atol=TOLERANCE, rtol=0)


HEADS = {
    "classify": "AutoModelForSequenceClassification",
    "tag": "AutoModelForTokenClassification",
    "span": "AutoModelForQuestionAnswering",
}


FINE_TUNED = [(kind, head) for kind in TOKENIZERS for head in HEADS if (kind, head) != ("eurobert", "span")]
"""EuroBERT has no class for question answering."""


@pytest.mark.parametrize(("kind", "head"), FINE_TUNED)
@torch.no_grad()
def test_fine_tuned_checkpoints_have_the_scores_of_transformers(kind: str, head: str, tmp_path: Path) -> None:
    labels = {} if head == "span" else {"id2label": {0: "cold", 1: "grey", 2: "warm"}}
    pooling = {"classifier_pooling": "mean"} if kind == "eurobert" else {}
    theirs = save_checkpoint(tmp_path, kind, 5, HEADS[head], **labels, **pooling)
    bundle = Bundle.load(f"hf:{tmp_path}")
    assert bundle.labels == (("start", "end") if head == "span" else ("cold", "grey", "warm"))
    for ids in transformers.AutoTokenizer.from_pretrained(tmp_path)(SENTENCES)["input_ids"]:
        found = theirs(input_ids=torch.tensor([ids]))
        if head == "span":  # ours are log-probabilities
            expected = torch.stack((found.start_logits[0], found.end_logits[0]), 1).log_softmax(0)
        else:
            expected = found.logits if head == "classify" else found.logits[0]
        torch.testing.assert_close(bundle.model(flat_batch([np.array(ids)])), expected, atol=TOLERANCE, rtol=1e-5)


@pytest.mark.parametrize("kind", ["bert", "llama"])
@torch.no_grad()
def test_a_checkpoint_in_half_precision_is_computed_in_single_precision(kind: str, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "whole", kind, 6, "AutoModel").half().save_pretrained(tmp_path / "half")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "half" / file).write_bytes((tmp_path / "whole" / file).read_bytes())
    bundle = Bundle.load(f"hf:{tmp_path / 'half'}")
    assert {tensor.dtype for tensor in bundle.model.parameters()} == {torch.float32}
    theirs = transformers.AutoModel.from_pretrained(tmp_path / "half", dtype=torch.float32).eval()
    ids = np.random.default_rng(0).integers(5, bundle.tokenizer.vocab_size, 40)
    expected = theirs(input_ids=torch.tensor(ids)[None]).last_hidden_state[0]
    torch.testing.assert_close(bundle.model.hidden(flat_batch([ids])), expected, atol=TOLERANCE, rtol=0)


@torch.no_grad()
def test_the_head_of_berts_own_pretraining_is_read(tmp_path: Path) -> None:
    theirs = save_checkpoint(tmp_path, "bert", 7, "AutoModelForPreTraining")
    bundle = Bundle.load(f"hf:{tmp_path}")
    ids = np.random.default_rng(0).integers(5, bundle.tokenizer.vocab_size, 40)
    expected = theirs(input_ids=torch.tensor(ids)[None]).prediction_logits[0]
    torch.testing.assert_close(bundle.model(flat_batch([ids])), expected, atol=TOLERANCE, rtol=1e-5)


def run_command_of(message: str) -> None:
    """Run the Python command that a message names, in this process: the import of transformers takes seconds."""
    _, _, command = message.partition("python -c ")
    exec(shlex.split(command)[0], {})


def test_the_commands_of_the_messages_convert_pickles_and_make_a_tokenizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    theirs = save_checkpoint(tmp_path / "old", "bert", 8)
    (tmp_path / "old" / "model.safetensors").unlink()
    torch.save(theirs.state_dict(), tmp_path / "old" / "pytorch_model.bin")
    with pytest.raises(InputError, match="is a pickle") as refused:
        Bundle.load(f"hf:{tmp_path / 'old'}")
    run_command_of(str(refused.value))
    bundle = Bundle.load("hf:converted")
    ids = [2, 7, 8, 9, 3]
    torch.testing.assert_close(
        bundle.model(flat_batch([np.array(ids)])), logits_of(theirs, [ids])[0], atol=TOLERANCE, rtol=1e-5
    )
    (tmp_path / "converted" / "tokenizer.json").unlink()
    words = "".join(f"{bundle.tokenizer.piece(id)}\n" for id in range(bundle.tokenizer.vocab_size))
    (tmp_path / "converted" / "vocab.txt").write_text(words, encoding="utf-8")
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    (tmp_path / "converted" / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    with pytest.raises(InputError, match=r"no tokenizer\.json") as refused:
        Bundle.load("hf:converted")
    run_command_of(str(refused.value))
    (tmp_path / "tokenizer" / "tokenizer.json").rename(tmp_path / "converted" / "tokenizer.json")
    again = Bundle.load("hf:converted").tokenizer
    expected = [bundle.tokenizer.frame.around(one).tolist() for one in bundle.tokenizer.encode_batch(SENTENCES)]
    assert [again.frame.around(one).tolist() for one in again.encode_batch(SENTENCES)] == expected


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("kind", CAUSAL)
def test_generated_tokens_equal_those_of_transformers(kind: str, seed: int, tmp_path: Path) -> None:
    theirs = save_checkpoint(tmp_path, kind, seed, "AutoModelForCausalLM")
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


OPTIONAL = {
    "bert": ("layer_norm_eps", "hidden_act", "type_vocab_size"),
    "roberta": ("layer_norm_eps", "hidden_act"),
    "distilbert": ("activation",),
    "gpt2": ("layer_norm_epsilon", "activation_function", "n_inner"),
    "llama": ("rms_norm_eps", "num_key_value_heads", "head_dim", "rope_parameters", "tie_word_embeddings"),
    "mistral": ("rms_norm_eps", "head_dim", "rope_parameters", "tie_word_embeddings"),
    "eurobert": ("rms_norm_eps", "num_key_value_heads", "head_dim", "tie_word_embeddings"),
}
"""Entries of config.json that may be missing."""


@pytest.mark.parametrize("kind", OPTIONAL)
@torch.no_grad()
def test_missing_entries_have_the_defaults_of_transformers(kind: str, tmp_path: Path) -> None:
    theirs = type(random_config(kind, 0, 300))
    changes = {name: getattr(theirs(), name) for name in OPTIONAL[kind]}
    if "head_dim" in changes:
        changes |= {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 8}
    model = save_checkpoint(tmp_path, kind, 9, "AutoModel", **changes)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    few = {name: value for name, value in config.items() if name not in OPTIONAL[kind]}
    (tmp_path / "config.json").write_text(json.dumps(few), encoding="utf-8")
    bundle = Bundle.load(f"hf:{tmp_path}")
    ids = np.random.default_rng(0).integers(5, bundle.tokenizer.vocab_size, 30)
    expected = model(input_ids=torch.tensor(ids)[None]).last_hidden_state[0]
    torch.testing.assert_close(bundle.model.hidden(flat_batch([ids])), expected, atol=TOLERANCE, rtol=0)


def test_entries_whose_default_cannot_be_computed_must_not_be_missing(tmp_path: Path) -> None:
    for kind, auto, entry in (
        ("mistral", "AutoModelForCausalLM", "sliding_window"),
        ("eurobert", "AutoModelForSequenceClassification", "classifier_pooling"),
    ):
        save_checkpoint(
            tmp_path / kind, kind, 0, auto, **({"classifier_pooling": "mean"} if kind == "eurobert" else {})
        )
        config = json.loads((tmp_path / kind / "config.json").read_text(encoding="utf-8"))
        assert config.pop(entry, None) in (None, "mean")
        (tmp_path / kind / "config.json").write_text(json.dumps(config), encoding="utf-8")
        with pytest.raises(InputError, match=entry):
            Bundle.load(f"hf:{tmp_path / kind}")


@pytest.mark.parametrize("kind", ["bert", "distilbert", "roberta", "camembert", "gpt2"])
def test_a_checkpoint_whose_files_name_no_special_tokens_has_those_of_its_family(kind: str, tmp_path: Path) -> None:
    auto = "AutoModelForCausalLM" if kind in CAUSAL else "AutoModelForMaskedLM"
    save_checkpoint(tmp_path, kind, 0, auto)
    named = Bundle.load(f"hf:{tmp_path}").tokenizer
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 64}', encoding="utf-8")
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    few = {name: value for name, value in config.items() if not name.endswith("_token_id") or name == "pad_token_id"}
    (tmp_path / "config.json").write_text(json.dumps(few), encoding="utf-8")
    found = Bundle.load(f"hf:{tmp_path}").tokenizer
    assert found.fingerprint == named.fingerprint
    assert (found.mask_id, found.unk_id, found.special_ids) == (named.mask_id, named.unk_id, named.special_ids)


def test_a_model_without_a_frame_generates_from_an_empty_prompt(tmp_path: Path) -> None:
    theirs = save_checkpoint(tmp_path, "gpt2", 4, "AutoModelForCausalLM")
    bundle = Bundle.load(f"hf:{tmp_path}")
    start = torch.tensor([[bundle.tokenizer.sos_id]])
    with torch.no_grad():
        expected = theirs.generate(start, max_new_tokens=5, do_sample=False, pad_token_id=0)[0, 1:].tolist()
    assert list(Generator(bundle).tokens("", SamplingSettings(max_new_tokens=5))) == expected
