"""Generation: the cache changes no token, texts may exceed the number of positions, sampling has known answers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from headswap.batches.batch import flat_batch
from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError
from headswap.inference.generate import growing_batch
from headswap.inference.generate.config import SamplingSettings
from headswap.inference.generate.generator import Continuation, Generator
from headswap.inference.generate.growing_batch import GrowingBatch
from headswap.kernels.cuda_graph import GraphCapture
from headswap.model.shape import PRESETS
from headswap.model.text_model import build_model
from headswap.tokens.tokenizer import Tokenizer
from tiny import tiny_model_shape

pytestmark = pytest.mark.usefixtures("one_thread")


def bundle_of(tokenizer: Tokenizer, preset: str = "small", head: str = "lm", **changes: object) -> Bundle:
    """A model with large weights, so that its next tokens vary."""
    shape = tiny_model_shape(preset, head=head, vocab_size=tokenizer.vocab_size, **changes)
    model = build_model(shape, seed=3)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if tensor.ndim > 1:
                tensor.mul_(30 if "layers" in name else 1)
    return Bundle(model, tokenizer, ("a", "b", "c") if head == "classify" else ())


ENDING = {
    ("lab", 0.0): 0.5, ("lab", 1.5): 2.0, ("small", 0.0): 4.0, ("small", 1.5): 3.0, ("gpt2-small", 0.0): 4.0,
    ("gpt2-small", 1.5): 4.0, ("modern", 0.0): 3.0, ("bert-base", 0.0): 5.0,
}  # fmt: skip
"""Bias of `<eos>` with which some texts of the tests end earlier than others."""
PROMPTS = ["", "the film was dull and", "a", "the story " * 30, "the film"]
"""Different lengths, one longer than the number of positions."""


def with_ends(tokenizer: Tokenizer, preset: str, temperature: float) -> Bundle:
    """A model that ends some texts early."""
    bundle = bundle_of(tokenizer, preset)
    bias = torch.zeros(tokenizer.vocab_size)
    bias[tokenizer.eos_id] = ENDING[preset, temperature]
    bundle.model.head.bias = torch.nn.Parameter(bias)
    with torch.no_grad():
        bundle.model.base.embedding.weight.mul_(20)
    return bundle


def do_some_end(answers: list[Continuation]) -> bool:
    return 0 < sum(answer.ended for answer in answers) < len(answers)


def without_end(bundle: Bundle) -> Bundle:
    """The same model without `<eos>`: texts never end."""
    generator_ids = torch.zeros(bundle.tokenizer.vocab_size)
    generator_ids[bundle.tokenizer.eos_id] = -1e9
    bundle.model.head.bias = torch.nn.Parameter(generator_ids)
    return bundle


@torch.no_grad()
def naive(bundle: Bundle, prompt: str, count: int) -> list[int]:
    """Greedy decoding without a cache: the whole sequence is computed for every token."""
    tokenizer = bundle.tokenizer
    known = [tokenizer.sos_id, *tokenizer.encode(prompt).tolist()]
    never = [tokenizer.pad_id, tokenizer.sos_id, tokenizer.mask_id, tokenizer.sep_id]
    start = len(known)
    for _ in range(count):
        logits = bundle.model(flat_batch([torch.tensor(known).numpy()]))[-1]
        logits[never] = float("-inf")
        known.append(int(logits.argmax()))
        if known[-1] == tokenizer.eos_id:
            break
    return known[start:]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("prompt", ["", "the film was", "x"])
def test_cached_generation_equals_naive(tokenizer: Tokenizer, preset: str, prompt: str) -> None:
    bundle = without_end(bundle_of(tokenizer, preset))
    settings = SamplingSettings(max_new_tokens=25)
    found = list(Generator(bundle).tokens(prompt, settings))
    assert found == naive(bundle, prompt, 25)
    assert len(found) == 25


def test_the_tokens_generated_by_the_test_model_vary(tokenizer: Tokenizer) -> None:
    """Otherwise the comparison with naive generation would be empty."""
    bundle = without_end(bundle_of(tokenizer))
    assert len(set(Generator(bundle).tokens("the film was", SamplingSettings(max_new_tokens=25)))) > 3


@pytest.mark.parametrize("preset", PRESETS)
def test_texts_can_be_longer_than_the_number_of_positions(tokenizer: Tokenizer, preset: str) -> None:
    bundle = without_end(bundle_of(tokenizer, preset))
    count = 3 * bundle.max_length
    assert len(list(Generator(bundle).tokens("the film", SamplingSettings(max_new_tokens=count)))) == count


@pytest.mark.parametrize("temperature", [0.0, 1.5])
@pytest.mark.parametrize("preset", ["lab", "small", "gpt2-small"])
def test_several_prompts_together_give_the_same_texts_as_one_by_one(
    tokenizer: Tokenizer, preset: str, temperature: float
) -> None:
    """With different lengths, beyond the number of positions, some texts ending earlier."""
    settings = SamplingSettings(max_new_tokens=90, temperature=temperature, seed=4)
    for bundle in (with_ends(tokenizer, preset, temperature), without_end(bundle_of(tokenizer, preset))):
        generator = Generator(bundle)
        alone = [generator.continue_text(prompt, settings) for prompt in PROMPTS]
        assert generator.continue_texts(PROMPTS, settings) == alone
        assert do_some_end(alone) or bundle.model.head.bias.min() < 0
    assert generator.continue_texts([], settings) == []


def compute_again(self: GraphCapture, compute: Callable[[], None]) -> Callable[[], None]:
    compute()
    return compute


def replay_nothing(self: GraphCapture, compute: Callable[[], None]) -> Callable[[], None]:
    compute()
    return lambda: None


def fail(self: GraphCapture, compute: Callable[[], None]) -> Callable[[], None]:
    raise RuntimeError("no graph today")


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Generation steps are captured as on CUDA; the number of replayed steps."""
    monkeypatch.setattr(growing_batch, "has_cuda_graphs", lambda device: True)
    monkeypatch.setattr(GraphCapture, "capture", compute_again)
    monkeypatch.setattr(growing_batch, "MIN_STEPS_TO_CAPTURE", 2)
    return count_replayed(monkeypatch)


def count_replayed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    step, counts = GrowingBatch.step, [0]

    def counted(self: GrowingBatch, tokens: list[int]) -> torch.Tensor:
        counts[0] += self.replay is not None
        return step(self, tokens)

    monkeypatch.setattr(GrowingBatch, "step", counted)
    return counts


@pytest.mark.parametrize("temperature", [0.0, 1.5])
@pytest.mark.parametrize("preset", ["lab", "small", "gpt2-small"])
def test_replayed_steps_generate_the_same_texts_as_eager_steps(
    tokenizer: Tokenizer, preset: str, temperature: float, replayed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SamplingSettings(max_new_tokens=90, temperature=temperature, seed=4)
    for bundle in (with_ends(tokenizer, preset, temperature), without_end(bundle_of(tokenizer, preset))):
        found = Generator(bundle).continue_texts(PROMPTS, settings)
        with monkeypatch.context() as patch:
            patch.setattr(growing_batch, "has_cuda_graphs", lambda device: False)
            assert found == Generator(bundle).continue_texts(PROMPTS, settings)
        assert do_some_end(found) or bundle.model.head.bias.min() < 0
    assert replayed[0] > 160


def test_the_use_of_cuda_graphs_is_logged_once(
    tokenizer: Tokenizer, replayed: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="headswap"):
        Generator(without_end(bundle_of(tokenizer))).continue_text("the film", SamplingSettings(max_new_tokens=25))
    assert (
        caplog.text.count("Using CUDA graphs: generation steps are captured and replayed; disable with --fast off.")
        == 1
    )
    assert replayed[0] == 23


@pytest.mark.parametrize(
    ("capture", "why", "times"),
    [(replay_nothing, "replayed and eager probabilities differ", 1), (fail, "no graph today)", 0)],
)
def test_a_stale_graph_and_a_failed_capture_are_logged_and_steps_run_eagerly(
    tokenizer: Tokenizer, replayed: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    capture: Any, why: str, times: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(GraphCapture, "capture", capture)
    bundle = without_end(bundle_of(tokenizer))
    with caplog.at_level("INFO", logger="headswap"):
        found = list(Generator(bundle).tokens("the film was", SamplingSettings(max_new_tokens=25)))
    assert caplog.text.count(f"cannot be captured as CUDA graphs ({why}") == 1
    assert found == naive(bundle, "the film was", 25)
    assert replayed[0] == times


def test_eager_steps_after_a_stale_graph_continue_the_texts_that_have_not_ended(
    tokenizer: Tokenizer, replayed: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One text ends between the captured step and the check."""
    monkeypatch.setattr(GraphCapture, "capture", replay_nothing)
    bundle, settings = with_ends(tokenizer, "gpt2-small", 0.0), SamplingSettings(max_new_tokens=40)
    with caplog.at_level("INFO", logger="headswap"):
        found = Generator(bundle).continue_texts(PROMPTS, settings)
    assert "cannot be captured as CUDA graphs (replayed and eager" in caplog.text
    assert found[0].num_tokens == 2
    assert do_some_end(found)
    monkeypatch.setattr(growing_batch, "has_cuda_graphs", lambda device: False)
    assert found == Generator(bundle).continue_texts(PROMPTS, settings)


def test_a_step_with_the_logits_of_the_captured_one_does_not_count_as_checked(
    tokenizer: Tokenizer, replayed: list[int]
) -> None:
    bundle = without_end(bundle_of(tokenizer))
    with torch.no_grad():
        bundle.model.base.embedding.weight.zero_()  # every token has the same probability
    ready = Generator(bundle)
    seen = []

    def watched(*arguments: Any, **settings: Any) -> GrowingBatch:
        seen.append(GrowingBatch(*arguments, **settings))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headswap.inference.generate.generator.GrowingBatch", watched)
        list(ready.tokens("the film was", SamplingSettings(max_new_tokens=25)))
    assert replayed[0] == 23
    assert not seen[0].is_checked


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; run the tests on a machine with one")
@pytest.mark.parametrize("preset", PRESETS)
def test_replayed_steps_on_a_gpu_generate_the_same_texts_as_a_cpu(
    tokenizer: Tokenizer, preset: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    counts = count_replayed(monkeypatch)
    settings = SamplingSettings(max_new_tokens=90)
    for bundle in (with_ends(tokenizer, preset, 0.0), without_end(bundle_of(tokenizer, preset))):
        on_cpu = Generator(bundle).continue_texts(PROMPTS, settings)
        bundle.model.cuda()
        with caplog.at_level("INFO", logger="headswap"):
            assert Generator(bundle).continue_texts(PROMPTS, settings) == on_cpu
    assert "cannot be captured" not in caplog.text
    assert counts[0] > 80


def test_a_prompt_longer_than_the_number_of_positions_is_continued(tokenizer: Tokenizer) -> None:
    bundle = without_end(bundle_of(tokenizer))
    answer = Generator(bundle).continue_text("the film was dull " * 40, SamplingSettings(max_new_tokens=5))
    assert answer.num_tokens == 5
    assert not answer.ended


def test_the_end_token_is_reachable_and_ends_the_text(tokenizer: Tokenizer) -> None:
    bundle = bundle_of(tokenizer)
    bias = torch.zeros(tokenizer.vocab_size)
    bias[tokenizer.eos_id] = 1e9
    bundle.model.head.bias = torch.nn.Parameter(bias)
    answer = Generator(bundle).continue_text("the film", SamplingSettings(max_new_tokens=30))
    assert (answer.ended, answer.num_tokens, answer.text) == (True, 1, "")


def test_padding_start_mask_and_separator_are_never_generated(tokenizer: Tokenizer) -> None:
    bundle = bundle_of(tokenizer)
    never = {tokenizer.pad_id, tokenizer.sos_id, tokenizer.mask_id, tokenizer.sep_id}
    bias = torch.zeros(tokenizer.vocab_size)
    bias[list(never)] = 1e9
    bundle.model.head.bias = torch.nn.Parameter(bias)
    for settings in (SamplingSettings(max_new_tokens=20), SamplingSettings(max_new_tokens=20, temperature=2.0)):
        assert not never & set(Generator(bundle).tokens("", settings))


@pytest.mark.parametrize("narrow", [{"top_k": 1}, {"top_p": 1e-9}])
def test_sampling_from_one_token_is_greedy(tokenizer: Tokenizer, narrow: dict[str, float]) -> None:
    bundle = bundle_of(tokenizer)
    greedy = list(Generator(bundle).tokens("the film", SamplingSettings(max_new_tokens=20)))
    narrowed = SamplingSettings(max_new_tokens=20, temperature=1.5, **narrow)
    assert list(Generator(bundle).tokens("the film", narrowed)) == greedy


def test_the_same_seed_gives_the_same_text_and_another_seed_a_different_one(tokenizer: Tokenizer) -> None:
    generator = Generator(without_end(bundle_of(tokenizer)))
    texts = [
        generator.continue_text("the film", SamplingSettings(temperature=1.5, seed=seed)).text for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]


def test_prompt_and_continuation_join_to_the_decoded_whole(tokenizer: Tokenizer) -> None:
    bundle = without_end(bundle_of(tokenizer))
    settings = SamplingSettings(max_new_tokens=8)
    ids = list(Generator(bundle).tokens("the film", settings))
    answer = Generator(bundle).continue_text("the film", settings)
    assert answer.prompt + answer.text == tokenizer.decode([*tokenizer.encode("the film").tolist(), *ids])


def test_a_classifier_cannot_generate_and_the_error_names_predict(tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match="headswap predict"):
        Generator(bundle_of(tokenizer, head="classify"))
    with pytest.raises(InputError, match="headswap fill"):
        Generator(bundle_of(tokenizer, direction="bidirectional"))
