"""Learning rates and commands of the methods section."""

from dataclasses import replace
from pathlib import Path

from headswap.core.settings import load_recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.study.report.methods import commands, methods
from headswap.study.report.tuning import tuning_sentences
from headswap.study.setup.config import StudyRecipe
from headswap.study.statistics.baseline_runs import add_baselines
from headswap.study.statistics.runs import read_runs, read_study
from study_fixture import runs_of, synthetic_study


def test_the_learning_rates_of_every_arm_are_stated(finished_study: Path) -> None:
    (sentence,) = [sentence for sentence in methods(read_study(finished_study)) if "Learning rates" in sentence]
    assert "scratch 0.00085; pretrained 0.0017, times 0.8 per layer downwards, times 10 for the head." in sentence


def test_how_each_arm_reads_pairs_is_stated(tmp_path: Path) -> None:
    study = synthetic_study({(arm, 100): [0.8] for arm in ("tfidf", "scratch", "box", "bert", "older")})
    encodings = {"scratch": "separate", "box": "separate", "bert": "joined", "older": None}
    study.runs[:] = [replace(run, folder=tmp_path / run.arm) for run in study.runs]
    for run in study.runs:
        run.folder.mkdir()
        if run.arm in encodings:
            recipe = load_recipe(FinetuneRecipe, None, {"data": {"train": "a.csv", "text_pair_column": "b"}})
            head = recipe.head.changed(pair_encoding=encodings[run.arm])
            training = recipe.training.changed(learning_rate=1e-4)
            recipe.changed(head=head, training=training).save(run.folder / "recipe.toml")
    found = [sentence for sentence in methods(study) if "--pair-encoding" in sentence]
    assert [sentence.split(":")[0] for sentence in found] == ["bert, older", "scratch, box"]
    assert "one sequence" in found[0]
    assert "two sequences" in found[1]


def test_the_command_of_a_comparison_names_existing_runs(finished_study: Path) -> None:
    names = [f"{arm}-220-seed{seed}-" for arm in ("scratch", "pretrained") for seed in (1, 2, 3)]
    command = commands(add_baselines(read_runs(runs_of(finished_study, *names))))
    folders = command.removeprefix("headswap compare ").split()
    assert len(folders) == 6
    assert all(Path(folder).is_dir() for folder in folders)


def test_an_arm_that_held_nothing_out_where_others_did_is_named() -> None:
    study = synthetic_study({(arm, labels): [0.8] for arm in ("scratch", "box") for labels in (100, 400, 1600)})
    for run in study.runs:
        run.result["num_validation"] = run.labels // 5 if run.labels >= 200 and run.arm != "scratch" else 0
    (sentence,) = [sentence for sentence in methods(study) if "held no labels out" in sentence]
    assert sentence.startswith("scratch held no labels out at 400 and 1,600 labels: ")


def test_the_report_names_the_smallest_training_set_of_which_labels_are_held_out() -> None:
    cells = {(arm, 100): [0.8, 0.9] for arm in ("tfidf", "scratch")}
    recipe = load_recipe(StudyRecipe, None, {"data": {"hold_out_from": 1_050}, "study": {"trials": 2}})
    study = synthetic_study(cells, recipe=recipe)
    text = " ".join(methods(study))
    assert "Below 1,050 labels nothing is held out, and the last epoch is used." in text
    assert "without a validation set, below 1,050 labels, every trained arm has its fixed defaults" in text
    assert "200" not in text
    assert "Label subsets are stratified by label and nested: each" in text
    assert "Labelled data" not in text, "the numbers of rows are not known here"
    study.unit = "pair"
    assert "Below 1,050 labelled pairs nothing is held out" in " ".join(methods(study))
    comparison = " ".join(methods(synthetic_study(cells)))
    assert "Some runs hold nothing out, and the last epoch is used." in comparison


def test_the_settings_that_baselines_selected_are_counted_per_run_or_per_label() -> None:
    study = synthetic_study({(arm, 100): [0.8, 0.8, 0.9] for arm in ("tfidf", "pairs", "majority")})
    study.recipe = load_recipe(StudyRecipe, None, {})
    for run in study.runs:
        if run.arm == "tfidf":
            run.result.update(C={"a": 1.0, "b": 10.0 * run.seed}, threshold=0.123456)
        if run.arm == "pairs":
            run.result["alpha"] = 1_000.0
    found = tuning_sentences(study)[1:]
    how = "selected by cross-validation on all labels of the budget"
    assert found == [
        f"C, {how}: tfidf 1 in 3, 10 in 1, 20 in 1, 30 in 1 of 6 labels in 3 runs.",
        f"The penalty of ridge regression (alpha), {how}: pairs 1,000 in 3 of 3 runs.",
        f"The threshold of probabilities, {how}: tfidf 0.123 in 3 of 3 runs.",
    ]
    study.runs[0].result["threshold"] = {str(number): number / 100 for number in range(1, 11)}
    assert tuning_sentences(study)[-1].endswith(": tfidf 0.01 to 0.123 in 12 labels in 3 runs.")
