"""The plan: jobs are identified by their content, arms share labels and bases, budgets are nested."""

from pathlib import Path
from typing import Any

import pytest

from headswap.core.settings import load_recipe
from headswap.data.config import ReadSettings
from headswap.defaults import finetuning as of_finetuning
from headswap.defaults import pretraining as of_pretraining
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.splits import read_splits
from headswap.study.jobs.planned_jobs import Plan
from headswap.tokens.cache import cached_tokenizer
from headswap.tokens.config import TokenizerSettings
from study_fixture import (
    planned,
    write_data,
    write_unique,
)


def plan_of(tmp_path: Path, *, out: str = "out", **changes: dict[str, Any]) -> Plan:
    sections = write_data(tmp_path / "files") if not (tmp_path / "files").exists() else _sections(tmp_path)
    for name, values in changes.items():
        sections[name] = sections.get(name, {}) | values
    return planned(tmp_path / out, sections)[2]


def _sections(tmp_path: Path) -> dict[str, Any]:
    return write_data(tmp_path / "files")


def ids(plan: Plan, kind: str) -> set[str]:
    return {job.id for job in plan.jobs.values() if job.kind == kind}


def test_every_run_has_a_job_and_arms_share_one_base(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    assert len(plan.entries) == 4 * 2 * 3
    assert {kind: len(ids(plan, kind)) for kind in ("tokenizer", "pretrain", "baseline", "finetune")} == {
        "tokenizer": 1, "pretrain": 1, "baseline": 12, "finetune": 12,
    }  # fmt: skip
    stages = [job.stage for job in plan.jobs.values()]
    assert stages == sorted(stages), "needed jobs come first"


def test_jobs_are_ordered_by_seed(tmp_path: Path) -> None:
    seeds = [job.seed for job in plan_of(tmp_path).jobs.values() if job.kind in ("finetune", "baseline")]
    assert seeds == sorted(seeds), "so that at a deadline whole seeds are left out"


def test_another_folder_has_the_same_jobs(tmp_path: Path) -> None:
    assert set(plan_of(tmp_path).jobs) == set(plan_of(tmp_path, out="elsewhere").jobs)


def test_threads_and_devices_change_no_job(tmp_path: Path) -> None:
    assert set(plan_of(tmp_path).jobs) == set(plan_of(tmp_path, machine={"threads": 2}).jobs)


def test_a_changed_default_makes_new_jobs_and_keeps_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study that a newer version resumes must not average over runs with different defaults."""
    before = plan_of(tmp_path)
    monkeypatch.setattr(of_finetuning, "FINETUNE_RATE_AT_256", 7e-5)
    after = plan_of(tmp_path)
    assert ids(before, "finetune").isdisjoint(ids(after, "finetune"))
    assert all(ids(before, kind) == ids(after, kind) for kind in ("tokenizer", "pretrain", "baseline"))
    monkeypatch.setattr(of_pretraining, "PRETRAIN_RATE_AT_256", 7e-4)
    assert ids(before, "pretrain").isdisjoint(ids(plan_of(tmp_path), "pretrain"))


def test_a_changed_setting_makes_new_jobs_and_keeps_the_others(tmp_path: Path) -> None:
    before, after = plan_of(tmp_path), plan_of(tmp_path, finetune={"learning_rate": 1e-3})
    assert ids(before, "finetune").isdisjoint(ids(after, "finetune"))
    assert ids(before, "pretrain") == ids(after, "pretrain")
    assert ids(before, "baseline") == ids(after, "baseline")
    longer = plan_of(tmp_path, pretrain={"max_steps": 4})
    assert ids(before, "pretrain").isdisjoint(ids(longer, "pretrain"))
    scratch = {entry.job for entry in before.entries if entry.arm == "scratch"}
    assert scratch <= set(longer.jobs), "scratch does not need the base"


def test_changed_rows_make_new_jobs(tmp_path: Path) -> None:
    before = plan_of(tmp_path)
    file = tmp_path / "files" / "test.jsonl"
    sections = _sections(tmp_path)
    file.write_text(file.read_text(encoding="utf-8").replace("mark 2 0", "mark 2 x"), encoding="utf-8")
    after = planned(tmp_path / "changed", sections)[2]
    assert ids(before, "finetune").isdisjoint(ids(after, "finetune"))


def test_a_tokenizer_folder_is_identified_by_its_content(tmp_path: Path, corpus_file: Path) -> None:
    """Another tokenizer in a folder of the same name makes new jobs; another name makes none."""
    read = ReadSettings(documents="line")
    found = []
    for place, size in (("own", 300), ("own", 280), ("other", 280)):
        tokenizer = cached_tokenizer([str(corpus_file)], read, TokenizerSettings(vocab_size=size))
        (tmp_path / place).mkdir(exist_ok=True)
        tokenizer.save(tmp_path / place / "tokenizer.json")
        sections = _sections(tmp_path) | {"tokenizer": {"tokenizer": str(tmp_path / place)}}
        found.append(planned(tmp_path / "out", sections)[2])
    for kind in ("pretrain", "finetune"):
        assert ids(found[0], kind).isdisjoint(ids(found[1], kind))
        assert ids(found[1], kind) == ids(found[2], kind)


def test_a_bundle_is_identified_by_its_weights_and_its_config(tmp_path: Path) -> None:
    """The config has the number of training tokens, on which the default learning rate depends."""
    folder = bundle_at(tmp_path / "mine", head="lm")
    (folder / "model.safetensors").write_bytes(b"weights")
    study = {"arms": (str(folder),), "budgets": ("40",), "seeds": 1}
    first = ids(plan_of(tmp_path, study=study), "finetune")
    assert ids(plan_of(tmp_path, study=study), "finetune") == first
    (folder / "config.json").write_text('{"head": "lm", "card": {}}', encoding="utf-8")
    second = ids(plan_of(tmp_path, study=study), "finetune")
    assert second != first
    (folder / "model.safetensors").write_bytes(b"another")
    assert ids(plan_of(tmp_path, study=study), "finetune") not in (first, second)


def test_more_seeds_add_jobs_and_keep_the_others(tmp_path: Path) -> None:
    few, more = plan_of(tmp_path), plan_of(tmp_path, study={"seeds": 5})
    assert set(few.jobs) < set(more.jobs)


def test_seeds_are_distributed_over_the_bases(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, study={"base_seeds": 2})
    assert len(ids(plan, "pretrain")) == 2
    bases = {entry.seed: entry.base for entry in plan.entries if entry.arm == "pretrained"}
    assert bases[1] == bases[3] != bases[2]


def test_with_all_labels_a_baseline_is_run_once(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, study={"budgets": ("all",), "arms": ("tfidf", "scratch")})
    assert len(ids(plan, "baseline")) == 1
    assert len(ids(plan, "finetune")) == 3
    assert {entry.labels for entry in plan.entries} == {240}


def splits_of(plan: Plan, arm: str, labels: int, seed: int) -> list[set[str]]:
    entry = next(e for e in plan.entries if (e.arm, e.labels, e.seed) == (arm, labels, seed))
    sections = {name: part for name, part in plan.jobs[entry.job].sections.items() if name != "tokenizer"}
    splits = read_splits(load_recipe(FinetuneRecipe, None, sections))
    return [{example.text for example in part} for part in (splits.train, splits.validation, splits.test)]


def test_arms_have_the_same_labels_at_a_seed_and_budgets_are_nested(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    for seed in (1, 2):
        ours, theirs = splits_of(plan, "scratch", 220, seed), splits_of(plan, "pretrained", 220, seed)
        assert (ours[0] | ours[1], ours[2]) == (theirs[0] | theirs[1], theirs[2])
        assert set.union(*splits_of(plan, "tfidf", 220, seed)[:2]) == ours[0] | ours[1]
        small = splits_of(plan, "scratch", 40, seed)
        assert small[0] | small[1] <= ours[0] | ours[1]
    assert splits_of(plan, "scratch", 220, 1)[0] != splits_of(plan, "scratch", 220, 2)[0]


def test_a_budget_includes_the_validation_labels(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    train, validation, _ = splits_of(plan, "pretrained", 220, 1)
    assert (len(train), len(validation)) == (176, 44)
    train, validation, _ = splits_of(plan, "scratch", 220, 1)
    assert (len(train), len(validation)) == (220, 0), "scratch holds nothing out below 2,000 labels"
    train, validation, _ = splits_of(plan, "pretrained", 40, 1)
    assert (len(train), len(validation)) == (40, 0), "below 200 labels nothing is held out"


def test_scratch_holds_out_as_the_other_arms_do_if_they_have_trials(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, study={"trials": 2})
    assert splits_of(plan, "scratch", 220, 1) == splits_of(plan, "pretrained", 220, 1)


def test_a_validation_file_is_used_with_all_labels_only(tmp_path: Path) -> None:
    sections = write_data(tmp_path / "files")
    sections["data"]["validation"] = str(tmp_path / "files" / "validation.jsonl")
    write_unique(tmp_path / "files" / "validation.jsonl", 50, seed=3)
    sections["study"] |= {"budgets": ("220", "all"), "arms": ("scratch",)}
    plan = planned(tmp_path / "out", sections)[2]
    train, validation, _ = splits_of(plan, "scratch", 220, 1)
    assert (len(train), len(validation)) == (220, 0)
    train, validation, _ = splits_of(plan, "scratch", 290, 1)
    assert (len(train), len(validation)) == (240, 50)


def test_a_recipe_is_an_arm(tmp_path: Path) -> None:
    (tmp_path / "careful.toml").write_text('verb = "finetune"\n[training]\nlearning_rate = 1e-5\n', encoding="utf-8")
    (tmp_path / "other-base.toml").write_text('verb = "pretrain"\n[training]\nmax_steps = 5\n', encoding="utf-8")
    arms = ("pretrained", str(tmp_path / "careful.toml"), str(tmp_path / "other-base.toml"))
    plan = plan_of(tmp_path, study={"arms": arms, "budgets": ("40",), "seeds": 1})
    assert [entry.arm for entry in plan.entries] == ["pretrained", "careful", "other-base"]
    first, careful, other = (plan.jobs[entry.job] for entry in plan.entries)
    assert careful.sections["training"]["learning_rate"] == 1e-5
    assert careful.needs == first.needs != other.needs


def bundle_at(folder: Path, *, head: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(f'{{"head": "{head}"}}', encoding="utf-8")
    return folder


def test_scratch_has_its_own_settings_unless_the_study_gives_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"model": {"direction": "bidirectional", "num_hidden_layers": 1, "dropout": 0.3}}
    monkeypatch.setattr(of_finetuning, "SCRATCH_SETTINGS", own)

    def model(**changes: dict[str, Any]) -> dict[str, Any]:
        plan = plan_of(tmp_path, study={"arms": ("scratch",), "budgets": ("40",), "seeds": 1}, **changes)
        return next(job.sections["model"] for job in plan.jobs.values() if job.kind == "finetune")

    assert model(finetune={"dropout": 0.2}) == {
        "base": "scratch", "preset": "small", "direction": "bidirectional", "dropout": 0.2,
        **_sections(tmp_path)["model"],
    }  # fmt: skip
    assert model()["dropout"] == 0.3
