"""A run that is killed with SIGKILL at any moment can be resumed and has bitwise the same results."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headswap.data.config import ReadSettings
from headswap.data.documents import read_documents
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.train_tokenizer import train_tokenizer
from reliability.harness import FINETUNE, JOBS, PRETRAIN, STORE, Harness, Job
from reliability.victim import Trigger

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]
FEWEST_KILLS = 25


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    harness = Harness(tmp_path_factory.mktemp("kills"))
    documents = read_documents([str(harness.files / "corpus.txt")], ReadSettings())
    train_tokenizer(documents, TokenizerSettings(vocab_size=300)).save(harness.files / "tokenizer.json")
    return harness


def check(harness: Harness, job: Job, name: str, *triggers: Trigger) -> None:
    assert harness.chain(job, name, list(triggers)) == len(triggers), "every kill ended a running process"
    assert harness.tally.mismatches == []


@pytest.mark.parametrize(
    ("job", "trigger"),
    [
        pytest.param(PRETRAIN, Trigger("line of metrics", 2), id="before the first checkpoint"),
        pytest.param(PRETRAIN, Trigger("line of metrics", 13), id="between two checkpoints"),
        pytest.param(PRETRAIN, Trigger("token store growing", 1), id="while the store is built"),
        pytest.param(PRETRAIN, Trigger("half-written file", 1), id="inside the first checkpoint's weights"),
        pytest.param(PRETRAIN, Trigger("half-written file", 4), id="inside the second checkpoint's optimizer"),
        pytest.param(PRETRAIN, Trigger("link", 2), id="before last points at the new checkpoint"),
        pytest.param(PRETRAIN, Trigger("removal", 1), id="while an old checkpoint is removed"),
        pytest.param(FINETUNE, Trigger("line of metrics", 20), id="while fine-tuning"),
        pytest.param(FINETUNE, Trigger("half-written file", 5), id="inside the best weights or a checkpoint"),
        pytest.param(FINETUNE, Trigger("removal", 3), id="while old best weights are removed"),
        pytest.param(STORE, Trigger("token store growing", 1), id="headswap store, half of it written"),
    ],
)
def test_killed_at_a_chosen_event(harness: Harness, job: Job, trigger: Trigger, request: pytest.FixtureRequest) -> None:
    check(harness, job, request.node.callspec.id, trigger)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_killed_at_moments_spread_over_everything_that_is_written(harness: Harness, job: Job) -> None:
    """Each kill is before or after a rename, a flush or a removal, or in the middle of a file."""
    _, counts = harness.uninterrupted(job)
    number = 4 if job is STORE else 8
    for part in range(number):
        moment = max(1, counts["any"] * (2 * part + 1) // (2 * number))
        check(harness, job, f"{job.name}-{moment}", Trigger("any", moment))


@pytest.mark.parametrize("job", [PRETRAIN, FINETUNE], ids=lambda job: job.name)
def test_killed_again_and_again(harness: Harness, job: Job) -> None:
    """A resumed run is also killed, at its start and while it removes leftovers of the last kill."""
    triggers = [Trigger("any", 90), Trigger("any", 3), Trigger("any", 12), Trigger("half-written file", 2)]
    check(harness, job, f"{job.name}-again", *triggers)


def test_killed_at_the_very_end(harness: Harness) -> None:
    """The bundle exists and result.json does not: the same command replaces the bundle and finishes."""
    at_the_end = Trigger("rename", 1, match="result.json")
    check(
        harness, FINETUNE, "end", at_the_end, Trigger("folder replaced", 1), Trigger("folder replaced", 2), at_the_end
    )


def test_killed_while_it_runs(harness: Harness) -> None:
    """The kill is not at a chosen operation; the scheduler decides where it happens."""
    kills = sum(harness.chain(PRETRAIN, f"running-{step}", [Trigger("line of metrics", step, is_held=False)])
                for step in (3, 7, 11))  # fmt: skip
    assert harness.tally.mismatches == []
    assert kills, "all processes ended before they were killed"


def on_cuda(job: Job) -> Job:
    """The same command on a CUDA device, with deterministic kernels."""

    def argv(files: Path, out: Path) -> list[str]:
        return [*(flag.replace("--device=cpu", "--device=cuda") for flag in job.argv(files, out)), "--deterministic"]

    return replace(job, name=f"{job.name}-cuda", argv=argv)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; run the tests on a machine with one")
@pytest.mark.parametrize("job", [on_cuda(PRETRAIN), on_cuda(FINETUNE)], ids=lambda job: job.name)
def test_killed_on_a_cuda_device_it_is_resumed_bit_for_bit(harness: Harness, job: Job) -> None:
    for step in (2, 13):
        check(harness, job, f"{job.name}-{step}", Trigger("line of metrics", step))
    check(harness, job, f"{job.name}-half", Trigger("half-written file", 4))


def test_enough_kills_were_made(harness: Harness) -> None:
    """Counts the kills of the tests above, so it passes only if the whole file is run."""
    assert harness.tally.num_kills >= FEWEST_KILLS
    assert harness.tally.mismatches == []
