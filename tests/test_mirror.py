"""Tests mirror the source: src/headswap/<room>/<module>.py is tested in tests/<room>/test_<module>.py.

Two tables have the exceptions. An entry that is not needed, or whose module does not exist, is an error.
"""

from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "headswap"
NO_LOGIC = {
    "batches/config.py": "settings",
    "cli/flags.py": "flags; tests/cli/test_help_page.py has every flag",
    "cli/help_tables.py": "tables; tests/cli/test_help_page.py checks the names in them",
    "data/config.py": "settings",
    "inference/generate/config.py": "settings",
    "study/executors/backend.py": "a protocol",
    "tasks/inputs.py": "records of names and functions",
    "training/observer.py": "callbacks that do nothing",
}
"""Modules that only declare something."""
TESTED_IN = {
    "api/plot.py": "api/test_run.py",
    "batches/unlabelled_rows.py": "finetuning/test_consistency.py",
    "bundle/task_state.py": "bundle/test_config_json.py",
    "cli/scores.py": "cli/test_tasks.py",
    "cli/study_display.py": "study/statistics/test_cell_quality.py",
    "cli/texts.py": "cli/test_tasks.py",
    "cli/training_command.py": "cli/verbs/test_pretrain.py",
    "cli/verbs/adapt.py": "cli/test_help_page.py",
    "cli/verbs/bases.py": "core/test_installed_bases.py",
    "cli/verbs/export.py": "interop/test_hf_out.py",
    "cli/verbs/fill.py": "cli/test_app.py",
    "cli/verbs/merge.py": "finetuning/test_layer_rates.py",
    "cli/verbs/report.py": "cli/verbs/test_study.py",
    "core/ownership.py": "core/test_files.py",
    "core/surroundings.py": "study/executors/test_node.py",
    "defaults/finetuning.py": "test_defaults.py",
    "defaults/pretraining.py": "test_defaults.py",
    "estimator/columns.py": "estimator/test_supervised.py",
    "estimator/fitting.py": "estimator/test_supervised.py",
    "estimator/messages.py": "estimator/test_contract.py",
    "estimator/pickled_bundle.py": "estimator/test_supervised.py",
    "finetuning/head_inputs.py": "finetuning/test_linear_head.py",
    "finetuning/learning.py": "finetuning/test_layer_rates.py",
    "finetuning/messages.py": "tasks/test_task_runs.py",
    "inference/abstain.py": "inference/test_predict.py",
    "inference/embed.py": "cli/verbs/test_predict.py",
    "inference/evaluate.py": "tasks/test_task_runs.py",
    "inference/generate/cache.py": "inference/generate/test_generator.py",
    "inference/generate/growing_batch.py": "inference/generate/test_generator.py",
    "interop/config.py": "interop/test_onnx_out.py",
    "interop/families/bert.py": "interop/test_hf_in.py",
    "interop/families/choose.py": "interop/test_hf_in.py",
    "interop/families/distilbert.py": "ecosystem/test_hf_out.py",
    "interop/families/family.py": "interop/test_hf_in.py",
    "interop/families/gpt2.py": "interop/test_hf_in.py",
    "interop/families/llama.py": "interop/test_hf_in.py",
    "interop/hf.py": "ecosystem/test_hf.py",
    "interop/onnx_score.py": "ecosystem/test_onnx.py",
    "interop/padded_model.py": "interop/test_onnx_out.py",
    "interop/peft.py": "ecosystem/test_peft.py",
    "interop/sentence_transformers.py": "ecosystem/test_sentence_transformers.py",
    "interop/stock_head.py": "interop/test_hf_out.py",
    "interop/target.py": "interop/test_hf_out.py",
    "interop/tokenizer_files.py": "interop/test_hf_out.py",
    "interop/tokenizer_in.py": "interop/test_hf_in.py",
    "kernels/cuda_graph.py": "training/test_cuda_graph_steps.py",
    "kernels/policy.py": "kernels/test_speed.py",
    "kernels/triton_loss.py": "training/test_gpu.py",
    "objectives/causal.py": "objectives/test_objective.py",
    "objectives/consistency.py": "finetuning/test_consistency.py",
    "objectives/masked.py": "objectives/test_objective.py",
    "objectives/supervised.py": "tasks/test_classify.py",
    "study/executors/choose.py": "study/executors/test_node.py",
    "study/executors/clean_state.py": "study/executors/test_workers.py",
    "study/executors/local.py": "study/executors/test_job_queue.py",
    "study/executors/worker.py": "study/executors/test_workers.py",
    "study/jobs/damage_records.py": "study/jobs/test_job_outputs.py",
    "study/jobs/embeddings.py": "study/test_linear_arm.py",
    "study/jobs/job.py": "study/jobs/test_job_outputs.py",
    "study/jobs/probe.py": "study/jobs/test_estimate.py",
    "study/report/tuning.py": "study/jobs/test_trials.py",
    "study/setup/unlabelled_sample.py": "study/test_consistency_arm.py",
    "study/statistics/error_results.py": "study/statistics/test_error_analysis.py",
    "study/statistics/score_results.py": "study/statistics/test_results.py",
    "study/statistics/study_files.py": "study/statistics/test_runs.py",
    "tasks/config.py": "tasks/test_choose.py",
    "tokens/kept_ids.py": "core/test_kept_inputs.py",
    "training/checkpoint.py": "reliability/test_survive.py",
    "training/gradients.py": "training/test_loop.py",
    "training/mlflow_tracker.py": "training/test_tracker.py",
    "training/parameter_groups.py": "training/test_adamw.py",
    "training/tensorboard_tracker.py": "training/test_tracker.py",
}
"""Modules that are tested by the file of another module or of a whole room."""


def modules() -> set[str]:
    """Every module except packages and the entry points of `python -m`."""
    found = (path for path in SOURCE.rglob("*.py") if path.name not in ("__init__.py", "__main__.py"))
    return {path.relative_to(SOURCE).as_posix() for path in found}


def mirror(module: str) -> Path:
    """The test file of a module."""
    path = Path(module)
    return TESTS / path.parent / f"test_{path.name}"


def test_every_module_has_a_test_file_or_is_in_a_table() -> None:
    missing = {name for name in modules() if not mirror(name).exists()} - set(NO_LOGIC) - set(TESTED_IN)
    assert not missing, f"Write {sorted(mirror(name).relative_to(TESTS).as_posix() for name in missing)} in tests."


def test_the_tables_have_no_entry_that_is_not_needed() -> None:
    entries = [*NO_LOGIC, *TESTED_IN]
    assert len(set(entries)) == len(entries)
    assert not set(entries) - modules(), "modules that do not exist"
    assert not {name for name in entries if mirror(name).exists()}, "modules that have a test file of their own"


def test_the_test_files_of_the_table_exist_and_have_tests() -> None:
    for module, file in TESTED_IN.items():
        assert "\ndef test_" in (TESTS / file).read_text(encoding="utf-8"), module
