"""What a study says before it starts."""

from pathlib import Path
from typing import Any

from headswap.study.jobs.estimate import Estimator
from headswap.study.jobs.preflight import Preflight, estimate_study
from study_fixture import planned, sections_of

PROBE: dict[str, Any] = {
    "step_seconds": 0.1, "tokens_a_step": 200, "score_seconds": 0.001, "bytes_a_token": 4.0,
    "num_parameters": 1_000_000, "num_embedding_parameters": 500_000, "max_length": 24,
    "peak_memory_bytes": 500_000_000, "device": "1 CPU threads, fp32",
}  # fmt: skip


def preflight(tmp_path: Path, *, slower: float = 1.0) -> Preflight:
    _, prepared, plan = planned(tmp_path / "out", sections_of(tmp_path))
    probe = PROBE | {name: slower * PROBE[name] for name in ("step_seconds", "score_seconds")}
    return estimate_study(plan.jobs.values(), Estimator(probe, prepared), parallel=2, keep="bundles")


def test_a_short_study_gets_no_advice(tmp_path: Path) -> None:
    assert preflight(tmp_path).advice() is None


def test_a_long_study_says_what_takes_the_time_and_which_settings_shorten_it(tmp_path: Path) -> None:
    found = preflight(tmp_path, slower=2_000)
    advice = found.advice()
    assert advice is not None
    assert found.parts[0].kind == "finetune"
    assert found.parts[0].num_jobs == 12  # 2 arms, 2 budgets, 3 seeds
    assert "12 fine-tunings " in advice
    assert "--seeds, --budgets, --arms or --max-length" in advice
    assert "baseline" not in advice, "they take a small part of the time"
    assert advice.endswith("With --max-minutes the study ends in time, and the same command runs the rest later.")


def test_an_expensive_pre_training_is_named_first(tmp_path: Path) -> None:
    _, prepared, plan = planned(tmp_path / "out", sections_of(tmp_path))
    base = next(job for job in plan.jobs.values() if job.kind == "pretrain")
    base.sections["training"] |= {"max_steps": 1_000_000}
    found = estimate_study(plan.jobs.values(), Estimator(PROBE, prepared), parallel=2, keep="bundles")
    assert [part.kind for part in found.parts] == ["pretrain"]
    assert "1 pre-training " in str(found.advice())
    assert "--pretrain.max-minutes" in str(found.advice())


def test_without_a_probe_there_is_nothing_to_advise(tmp_path: Path) -> None:
    _, prepared, plan = planned(tmp_path / "out", sections_of(tmp_path))
    assert estimate_study(plan.jobs.values(), Estimator(None, prepared), parallel=1, keep="bundles").advice() is None
