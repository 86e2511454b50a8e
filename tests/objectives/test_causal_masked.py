"""The objective causal+masked: its batches, its contracts in training, and a base that generates and fills."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import headswap as hs
from headswap.batches.batch import Batch
from headswap.batches.config import MaskingSettings
from headswap.batches.windows import Pieces
from headswap.core.errors import InputError, SettingError
from headswap.core.random_streams import Draws
from headswap.core.settings import load_recipe
from headswap.model.text_model import TextModel, build_model
from headswap.objectives import objective as objective_module
from headswap.objectives.causal_masked import CausalMaskedObjective
from headswap.pretraining.config import PretrainRecipe
from headswap.pretraining.corpus import RowBatches
from headswap.registry import OBJECTIVES
from headswap.training.config import MachineSettings, OptimizerSettings
from headswap.training.device import Machine
from headswap.training.distributed import Processes
from headswap.training.gradients import LossModule
from headswap.training.loop import train
from headswap.training.optimizer import load_optimizer_tensors, make_optimizer, optimizer_tensors
from reliability.runs import Crash
from tiny import ONE_THREAD, PRETRAIN, STORY_SETTINGS, TINY_SETTINGS, pieces_of, random_sequences, tiny_model_shape
from tiny import tiny_objective as made_objective

pytestmark = pytest.mark.usefixtures("one_thread")
NAME = "causal+masked"
LIKES = {"ann": "figs", "bob": "plums", "cleo": "pears", "dan": "limes", "eve": "kiwis", "fay": "nuts"}
MASK = 4  # the id of <mask> in tiny.tiny_objective


def tiny_objective(**masking: object) -> CausalMaskedObjective:
    found = made_objective(NAME, **masking)
    assert isinstance(found, CausalMaskedObjective)
    return found


def tiny_model(**changes: Any) -> TextModel:
    return build_model(tiny_model_shape(direction="bidirectional", **changes), seed=1)


@dataclass
class Steps:
    """Six sequences per step, some steps masked and some causal."""

    objective: CausalMaskedObjective
    total_steps: int = 6

    def micro_batches(self, step: int, *, count: int) -> list[Batch]:
        sequences = random_sequences([3, 17, 8, 12, 11, 6], seed=step)
        draws = Draws(0, "mask", step, progress=step / self.total_steps)
        parts = [part for part in np.array_split(np.arange(6), count) if len(part)]
        return [
            self.objective.make_batch(pieces_of([sequences[row] for row in part], int(part[0])), draws)
            for part in parts
        ]


def steps_of(model: TextModel, *, first_step: int = 0, optimizer: Any = None, **changes: Any) -> tuple[Iterator, Any]:
    settings = OptimizerSettings.model_validate({"learning_rate": 1e-2, "warmup_steps": 0, "seed": 5, **changes})
    optimizer = optimizer or make_optimizer(model, settings)
    source = Steps(tiny_objective())
    records = train(
        LossModule(model, source.objective), optimizer, source, settings=settings, processes=Processes(),
        machine=Machine(MachineSettings(device="cpu", threads=1)), first_step=first_step, total_steps=6,
    )  # fmt: skip
    return records, optimizer


def test_the_kind_of_a_step_is_a_function_of_seed_and_step_with_the_given_share() -> None:
    pieces = pieces_of(random_sequences([12, 9]))
    for share in (0.25, 0.9375):
        objective = tiny_objective(masked_share=share)
        kinds = [objective.make_batch(pieces, Draws(3, "mask", step)).is_causal for step in range(400)]
        assert kinds == [objective.make_batch(pieces, Draws(3, "mask", step)).is_causal for step in range(400)]
        assert kinds != [objective.make_batch(pieces, Draws(4, "mask", step)).is_causal for step in range(400)]
        assert abs(kinds.count(False) / 400 - share) < 4 * math.sqrt(share * (1 - share) / 400)


def test_all_micro_batches_of_a_step_are_of_one_kind_and_both_kinds_occur() -> None:
    found = [{batch.is_causal for batch in Steps(tiny_objective()).micro_batches(step, count=3)} for step in range(20)]
    assert all(len(kinds) == 1 for kinds in found)
    assert {True, False} == set().union(*found)


def test_a_masked_token_is_predicted_at_the_position_before_it() -> None:
    sequences = random_sequences([30, 25, 40])
    pieces = pieces_of(sequences)
    batch = tiny_objective().masked.make_batch(pieces, Draws(0, "mask", 1))
    assert batch.is_causal is False
    assert 0 < batch.num_targets < batch.num_tokens / 2
    assert batch.target_value_T.tolist() == pieces.ids[batch.target_index_T + 1].tolist()
    changed = np.flatnonzero(batch.ids_N.numpy() != pieces.ids)
    assert set(changed) <= set((batch.target_index_T + 1).tolist())
    assert (batch.ids_N.numpy()[changed] == MASK).mean() > 0.6


def test_the_first_token_of_a_piece_is_never_masked() -> None:
    ids = np.full(40, 9)
    lengths = np.full(20, 2)  # pieces from the middle of documents, without <sos>
    pieces = Pieces(ids, ids, lengths, np.arange(20), np.full(20, 7))
    for step in range(20):
        batch = tiny_objective(mlm_probability=0.9).masked.make_batch(pieces, Draws(0, "mask", step))
        assert (batch.ids_N[::2] == 9).all()
        assert (batch.target_index_T % 2 == 0).all(), "a target is never in the piece before"


@torch.no_grad()
def test_causal_batches_never_see_the_future_and_masked_batches_do() -> None:
    model, objective = tiny_model(), tiny_objective()
    first = random_sequences([13])[0]
    second = first.copy()
    second[8:] = (second[8:] + 5) % 55 + 6
    for part, is_causal in ((objective.causal, True), (objective.masked, False)):
        batches = [part.make_batch(pieces_of([ids]), Draws(0, "mask", 2)) for ids in (first, second)]
        assert batches[0].is_causal is is_causal
        gap = (model.hidden(batches[0])[:8] - model.hidden(batches[1])[:8]).abs().max().item()
        assert (gap == 0) == is_causal


@torch.no_grad()
def test_the_loss_at_initialisation_is_that_of_a_uniform_prediction() -> None:
    objective, model = tiny_objective(), tiny_model()
    for part in (objective.causal, objective.masked):
        batch = part.make_batch(pieces_of(random_sequences([41] * 12)), Draws(0, "mask", 0))
        assert objective.loss_sum(model, batch).item() / batch.num_targets == pytest.approx(math.log(61), abs=0.1)


def test_only_the_positions_before_masked_tokens_are_projected(monkeypatch: pytest.MonkeyPatch) -> None:
    projected = []
    inner = objective_module.linear_cross_entropy_sum

    def spy(hidden_TD: torch.Tensor, *others: Any) -> torch.Tensor:
        projected.append(len(hidden_TD))
        return inner(hidden_TD, *others)

    monkeypatch.setattr(objective_module, "linear_cross_entropy_sum", spy)
    objective = tiny_objective()
    batch = objective.masked.make_batch(pieces_of(random_sequences([40, 40])), Draws(0, "mask", 0))
    objective.loss_sum(tiny_model(), batch)
    assert projected == [batch.num_targets]


@pytest.mark.parametrize("name", ["masked", NAME])
def test_berts_transform_in_the_head_is_trained_with_masked_objectives(name: str) -> None:
    model = tiny_model(lm_head_transform="gelu").train()
    objective = made_objective(name)
    part = objective.masked if isinstance(objective, CausalMaskedObjective) else objective
    batch = part.make_batch(pieces_of(random_sequences([12, 9, 14])), Draws(0, "mask", 0))
    before = model.head.dense.weight.clone()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(120):
        loss = objective.loss_sum(model, batch) / batch.num_targets
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.2
    assert not torch.equal(before, model.head.dense.weight)


@pytest.mark.parametrize("accumulation", [2, 3, 6])
def test_micro_batches_equal_one_batch(accumulation: int) -> None:
    states, losses = [], []
    for count in (1, accumulation):
        model = tiny_model().double()
        records, _ = steps_of(model, gradient_accumulation_steps=count)
        losses.append([record.loss.item() for record in records])
        states.append(model.state_dict())
    assert losses[0] == pytest.approx(losses[1], abs=1e-9)
    for name in states[0]:
        torch.testing.assert_close(states[0][name], states[1][name], atol=1e-7, rtol=0)


def test_a_resumed_run_equals_an_uninterrupted_run_bit_for_bit() -> None:
    whole, first, second = (tiny_model(dropout=0.2) for _ in range(3))
    list(steps_of(whole)[0])
    records, optimizer = steps_of(first)
    for _ in range(3):
        next(records)
    torch.manual_seed(12345)
    second.load_state_dict(first.state_dict())
    restored = make_optimizer(second, OptimizerSettings(learning_rate=1e-2, warmup_steps=0, seed=5))
    load_optimizer_tensors(second, restored, optimizer_tensors(first, optimizer))
    list(steps_of(second, first_step=3, optimizer=restored)[0])
    assert all(torch.equal(tensor, second.state_dict()[name]) for name, tensor in whole.state_dict().items())


def test_the_defaults_of_masking_are_those_of_gpt_bert_and_given_values_are_kept() -> None:
    kind = OBJECTIVES.load(NAME)
    found = kind.masking_of(MaskingSettings())
    assert (found.mask_unit, found.mlm_probability_start, found.mlm_probability) == ("ngram", 0.3, 0.15)
    assert found.masked_share == 0.5
    given = MaskingSettings(mask_unit="word", mlm_probability_start=0.2, masked_share=0.9)
    assert kind.masking_of(given) == given
    assert OBJECTIVES.load("masked").masking_of(MaskingSettings()) == MaskingSettings(mask_unit="token")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> hs.Run:
    """A base of sentences in which the first word determines the last one, and the last one the first."""
    folder = tmp_path_factory.mktemp("both")
    lines = [f"{first} likes {last} .\n" for _ in range(40) for first, last in LIKES.items()]
    (folder / "corpus.txt").write_text("".join(lines), encoding="utf-8")
    return hs.pretrain(
        folder / "corpus.txt", out=folder / "base", objective=NAME, kind="word", max_steps=800, learning_rate=3e-3,
        held_out_fraction=0.1, **TINY_SETTINGS,
    )  # fmt: skip


def test_both_held_out_losses_are_reported_and_their_weighted_mean_is_the_loss(base: hs.Run) -> None:
    result, lines = base.result, [line for line in base.metrics() if "eval_loss" in line]
    assert result["loss"] == pytest.approx((result["masked_loss"] + result["causal_loss"]) / 2)
    assert all({"eval_masked_loss", "eval_causal_loss", "sample"} <= set(line) for line in lines)
    assert result["causal_loss"] < result["references"]["unigram_entropy"] - 0.5
    assert result["masked_loss"] < result["references"]["unigram_entropy"] - 0.5
    assert result["bits_per_byte"] == lines[-1]["eval_bits_per_byte"]


def test_the_share_of_masked_tokens_falls_during_the_run(base: hs.Run) -> None:
    recipe = load_recipe(PretrainRecipe, base.path / "recipe.toml")
    assert (recipe.masking.mlm_probability_start, recipe.masking.mask_unit) == (0.3, "ngram"), "defaults are saved"
    objective = tiny_objective(masked_share=0.999)

    class Rows:
        def __len__(self) -> int:
            return 64

        def pieces_of(self, rows: np.ndarray, draws: Draws) -> Pieces:
            return pieces_of([6 + np.arange(41) for _ in rows], int(rows[0]))

    source = RowBatches(Rows(), objective, 64, 1, total_steps=101)  # type: ignore[arg-type]
    shares = [(batch := source.micro_batches(step, count=1)[0]).num_targets / batch.num_tokens for step in (0, 50, 100)]
    assert shares == pytest.approx([0.3, 0.225, 0.15], abs=0.03)


def test_the_base_fills_masks_from_both_sides_and_generates_text(base: hs.Run) -> None:
    model = base.model
    for first, last in LIKES.items():
        assert model.fill(f"<mask> likes {last} .").masks[0][0].token.strip() == first, "from the right"
        assert model.fill(f"{first} likes <mask> .").masks[0][0].token.strip() == last, "from the left"
        assert model.generate(f"{first} likes", temperature=0.0, max_new_tokens=1).strip() == last
    with pytest.raises(InputError, match="no <mask>"):
        model.fill("ann likes figs .")


def test_the_bundle_stores_objective_and_direction_and_its_card_has_both_uses(base: hs.Run) -> None:
    folder = base.path / "bundle"
    config = json.loads((folder / "config.json").read_text())
    assert (config["objective"], config["direction"], config["is_decoder"]) == (NAME, "bidirectional", False)
    assert config["masking"]["mask_unit"] == "ngram"
    assert hs.load(base.path).bundle.verify() == []
    card = (folder / "README.md").read_text()
    assert "causal and bidirectional attention" in card
    assert all(f"headswap {verb} ." in card and f"model.{verb}(" in card for verb in ("generate", "fill"))


def test_an_interrupted_run_ends_with_the_same_weights_and_its_limit_cannot_be_raised(
    tiny_runs: Path, tmp_path: Path
) -> None:
    """The kinds of the steps and the share of masked tokens are functions of the step, so nothing is saved for them."""
    corpus = tiny_runs / "corpus.txt"
    given = {**PRETRAIN, "objective": NAME, "save_steps": 1, "lr_scheduler_type": "constant", "warmup_steps": 0}
    whole = hs.pretrain(corpus, out=tmp_path / "whole", max_steps=8, **given)
    with pytest.raises(MemoryError, match="by the test"):
        hs.pretrain(corpus, out=tmp_path / "run", max_steps=8, observer=Crash(4), **given)
    with pytest.raises(SettingError, match="the share of masked tokens depends on it"):
        hs.pretrain(corpus, out=tmp_path / "run", max_steps=9, resume=True, **given)
    resumed = hs.pretrain(corpus, out=tmp_path / "run", max_steps=8, resume=True, **given)
    weights = [load_file(run.path / "bundle" / "model.safetensors") for run in (whole, resumed)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.parametrize(("direction", "pooling"), [(None, "mean"), ("causal", "weighted-mean")])
def test_fine_tuning_chooses_the_direction_and_its_pooling(
    base: hs.Run, tiny_runs: Path, tmp_path: Path, direction: str | None, pooling: str
) -> None:
    chosen = {} if direction is None else {"direction": direction}
    train = tiny_runs / "few.jsonl"
    run = hs.finetune(base, train=train, out=tmp_path / "run", max_steps=3, **ONE_THREAD, **chosen)
    shape = run.model.bundle.model.shape
    assert (shape.direction, shape.classifier.pooling) == (direction or "bidirectional", pooling)
    assert hs.load(run.path).bundle.model.shape == shape


def test_a_share_of_masked_steps_is_an_error_with_another_objective(stories: Path, tmp_path: Path) -> None:
    settings = {**STORY_SETTINGS, "max_steps": 1, "masked_share": 0.5}
    with pytest.raises(SettingError, match="masked_share: no effect with the masked objective"):
        hs.pretrain(stories / "corpus.txt", out=tmp_path / "run", objective="masked", **settings)
