"""Records that are copied to the host: every value is the one that the step computed."""

import pytest
import torch

from headswap.training.late_records import late_record, packed_scalars, unpacked
from headswap.training.loop import StepRecord


def record_of(loss_type: torch.dtype, device: str = "cpu") -> StepRecord:
    def scalar(value: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.tensor(value, dtype=dtype, device=device)

    losses_K = torch.tensor([0.1, 1 / 3], dtype=loss_type, device=device)
    return StepRecord(
        step=7, learning_rate=1e-3, num_tokens=torch.tensor(11), num_targets_K=torch.tensor([5, 6]), losses_K=losses_K,
        loss=losses_K.sum(), grad_norm=scalar(2.7), is_skipped=scalar(1.0), is_broken=scalar(0.0), documents=(3, 4),
    )  # fmt: skip


def check_equal(ours: StepRecord, theirs: StepRecord) -> None:
    for name in ("losses_K", "loss", "grad_norm", "is_skipped", "is_broken", "num_tokens", "num_targets_K"):
        one, other = getattr(ours, name), getattr(theirs, name)
        assert one.dtype == other.dtype, name
        assert one.shape == other.shape, name
        assert one.tolist() == other.tolist(), name
    assert (ours.step, ours.learning_rate, ours.documents) == (theirs.step, theirs.learning_rate, theirs.documents)


@pytest.mark.parametrize("loss_type", [torch.float32, torch.float64])
def test_scalars_of_other_number_formats_are_the_same_after_packing(loss_type: torch.dtype) -> None:
    record = record_of(loss_type)
    check_equal(unpacked(record, packed_scalars(record)), record)


def test_a_record_on_the_cpu_is_not_copied() -> None:
    record = record_of(torch.float32)
    assert late_record(record).read() is record


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_record_is_read_on_the_host_without_waiting_for_later_work() -> None:
    record = record_of(torch.float64, "cuda")
    late = late_record(record)
    torch.cuda._sleep(2_000_000_000)  # about a second of later work on the device
    after = torch.cuda.Event()
    after.record()
    read = late.read()
    assert not after.query(), "the later work still runs"
    assert not read.loss.is_cuda
    check_equal(read, record)
