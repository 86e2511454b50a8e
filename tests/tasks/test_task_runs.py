"""Every task from end to end on its grammar: trained, evaluated, saved, loaded, compared with its baselines."""

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import headswap as hs
from headswap.baselines.scores import task_baselines
from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError, SettingError
from headswap.core.settings import load_recipe
from headswap.data.config import ColumnSettings
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.splits import read_splits
from headswap.inference.evaluate import score_task
from headswap.inference.predict import predict_texts
from headswap.training.config import MachineSettings
from headswap.training.device import Machine
from task_data import INPUTS, ROWS, assert_close, paired, questions, tagged, write_rows
from tiny import sentences

TINY: dict[str, Any] = {
    "base": "scratch", "preset": "small", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 64, "direction": "bidirectional", "kind": "word", "dropout": 0.0, "max_length": 40,
    "learning_rate": 5e-3, "num_train_epochs": 8, "device": "cpu", "threads": 1,
}  # fmt: skip
REACHED = {"classify": ("accuracy", 0.95), "multilabel": ("micro_f1", 0.95), "regress": ("r2", 0.95),
           "tag": ("f1", 0.95), "span": ("exact_match", 0.95)}  # fmt: skip
SET_TASKS = {"regress": {"task": "regress"}}  # the others are detected from their files
BASELINES = {"classify": {"majority", "tfidf"}, "multilabel": {"majority", "tfidf"}, "regress": {"mean", "tfidf"},
             "tag": {"majority", "linear-tagger"}, "span": {"nearest sentence", "linear-answers"}}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, hs.Run]:
    """A fine-tuned model of each task, a second or two each."""
    folder = tmp_path_factory.mktemp("tasks")
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
        for task, rows in ROWS.items():
            train = write_rows(folder / f"{task}-train.jsonl", rows(600, seed=1))
            test = write_rows(folder / f"{task}-test.jsonl", rows(150, seed=2))
            made[task] = hs.finetune(train=train, test=test, out=folder / task, **TINY, **SET_TASKS.get(task, {}))
    return made


@pytest.mark.parametrize("task", ROWS)
def test_a_task_is_learnt_from_its_grammar(runs: dict[str, hs.Run], task: str) -> None:
    result = runs[task].result
    name, least = REACHED[task]
    assert result["task"] == task
    assert result["test"][name] > least
    assert result["test"]["num_examples"] == 150
    assert (result["num_train"], result["num_validation"]) == (480, 120)
    assert result["truncated_shares"] == {"train": 0, "validation": 0, "test": 0}
    assert [line["epoch"] for line in result["history"]] == list(range(9)), "epoch 0 is evaluated, too"
    assert all("eval_loss" in line for line in result["history"])


@pytest.mark.parametrize("task", ROWS)
def test_a_saved_model_makes_the_same_predictions_when_it_is_loaded(
    runs: dict[str, hs.Run], task: str, tmp_path: Path
) -> None:
    bundle = Bundle.load(runs[task].path)
    assert bundle.task.task == task
    assert bundle.verify() == []
    before = predict_texts(bundle, INPUTS[task])
    bundle.save(tmp_path / "copy")
    again = Bundle.load(tmp_path / "copy")
    assert again.task == bundle.task
    assert_close([one.as_json() for one in predict_texts(again, INPUTS[task])], [one.as_json() for one in before])
    assert_close(runs[task].model.predict(INPUTS[task]), [answer.short for answer in before])


def test_a_fresh_process_makes_the_same_predictions(runs: dict[str, hs.Run]) -> None:
    code = (
        "import headswap as hs, json\n"
        f"for task, path in { ({task: str(run.path) for task, run in runs.items()})!r}.items():\n"
        f"    print(json.dumps([answer.as_json() for answer in hs.load(path).predictions({INPUTS!r}[task])]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for line, (task, run) in zip(done.stdout.splitlines(), runs.items(), strict=True):
        assert_close(json.loads(line), [answer.as_json() for answer in run.model.predictions(INPUTS[task])])


@pytest.mark.parametrize("task", ROWS)
def test_evaluate_repeats_the_test_score(runs: dict[str, hs.Run], task: str) -> None:
    """The saved bundle gives the metrics of the run: thresholds and scales are part of it."""
    run = runs[task]
    machine = Machine(MachineSettings(device="cpu", threads=1))
    found = score_task(
        run.model.bundle, str(run.path.parent / f"{task}-test.jsonl"), columns=ColumnSettings(), label_file=None,
        max_length=None, autocast=machine.scoring(),
    )  # fmt: skip
    assert_close(found, run.result["test"])


@pytest.mark.parametrize("task", ROWS)
def test_the_recipe_of_a_task_reproduces_the_run(runs: dict[str, hs.Run], task: str, tmp_path: Path) -> None:
    recipe = load_recipe(FinetuneRecipe, runs[task].path / "recipe.toml")
    assert recipe.data.task == task
    first = hs.finetune(config=runs[task].path / "recipe.toml", out=tmp_path / "a", num_train_epochs=0.2)
    second = hs.finetune(config=first.path / "recipe.toml", out=tmp_path / "b")
    assert (first.path / "recipe.toml").read_bytes() == (second.path / "recipe.toml").read_bytes()
    weights = [load_file(run.path / "bundle" / "model.safetensors") for run in (first, second)]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())


@pytest.mark.parametrize("task", ROWS)
def test_every_task_has_its_baselines(runs: dict[str, hs.Run], task: str) -> None:
    splits = read_splits(load_recipe(FinetuneRecipe, runs[task].path / "recipe.toml"))
    found = task_baselines(task, [*splits.train, *splits.validation], splits.test)
    assert set(found) == BASELINES[task]
    assert task_baselines(task, [*splits.train, *splits.validation], splits.test) == found, "from the cache"
    name, _ = REACHED[task]
    for scores in found.values():
        assert scores["num_examples"] == 150
        assert scores[name] is not None
    (linear,) = {"tfidf", "linear-tagger", "linear-answers"} & set(found)
    assert min(found, key=lambda other: found[other][name]) != linear, "the linear model beats the constant one"


def test_the_config_has_the_problem_type_of_hugging_face(runs: dict[str, hs.Run]) -> None:
    configs = {task: json.loads((run.path / "bundle" / "config.json").read_text()) for task, run in runs.items()}
    assert {task: config.get("problem_type") for task, config in configs.items()} == {
        "classify": "single_label_classification",
        "multilabel": "multi_label_classification",
        "regress": "regression",
        "tag": None,
        "span": None,
    }
    assert configs["tag"]["architectures"] == ["HeadswapForTokenClassification"]
    assert configs["span"]["architectures"] == ["HeadswapForQuestionAnswering"]
    assert len(configs["multilabel"]["task"]["thresholds"]) == 4
    assert configs["regress"]["task"]["target_mean"] == pytest.approx(1045, abs=10)
    assert configs["tag"]["id2label"]["0"] == "B-LOC"


def test_predictions_have_the_form_of_their_task(runs: dict[str, hs.Run]) -> None:
    labels = runs["multilabel"].model.predictions(["the film was fine and the story was dull ."])[0]
    assert labels.short == ("film",)
    assert set(labels.scores) == {"actor", "film", "scene", "story"}
    tags = runs["tag"].model.predictions(["mr jordan stone flew to jordan ."])[0]
    assert [(entity.type, entity.text) for entity in tags.entities] == [("PER", "jordan stone"), ("LOC", "jordan")]
    question, context = INPUTS["span"][0]
    answer = runs["span"].model.predictions([{"question": question, "context": context}])[0]
    assert answer.answer == context[answer.start : answer.end] == "port louis"
    assert 0.5 < answer.score <= 1
    cheap, dear = (runs["regress"].model.predict([text])[0] for text in ("film dull grey", "film superb fine"))
    assert 900 < cheap < 1000 < dear < 1200


def test_thresholds_were_chosen_on_validation(runs: dict[str, hs.Run]) -> None:
    state = runs["multilabel"].model.bundle.task
    assert len(state.thresholds) == 4
    assert all(0 < threshold < 1 for threshold in state.thresholds)


# Pairs, long texts, windows


@pytest.mark.parametrize("preset", ["small", "bert-base"])
def test_pairs_are_trained_evaluated_and_predicted(tmp_path: Path, preset: str) -> None:
    train = write_rows(tmp_path / "train.jsonl", paired(800, seed=1))
    test = write_rows(tmp_path / "test.jsonl", paired(100, seed=50))
    run = hs.finetune(
        train=train, test=test, text_pair_column="text_pair", out=tmp_path / "run",
        **{**TINY, "preset": preset, "learning_rate": 3e-3},
    )  # fmt: skip
    assert run.result["test"]["accuracy"] > 0.9
    good, bad = "the film was superb .", "the story was awful ."
    assert run.model.predict([(bad, good), (good, bad), (bad, bad)]) == ["pos", "neg", "neg"]
    with pytest.raises(InputError, match="reads pairs of texts"):
        run.model.predict([good])
    assert set(run.result["baselines"]) == {"majority", "tfidf", "pairs"}
    assert run.result["baselines"]["pairs"]["num_examples"] == 100
    with pytest.raises(SettingError, match="pairs of texts can only be truncated"):
        hs.finetune(train=train, text_pair_column="text_pair", long="windows", out=tmp_path / "other", **TINY)


def long_rows(count: int, seed: int) -> list[dict[str, str]]:
    """Long texts whose last sentence determines the label."""
    filler = "the film has a story and a scene and an actor and music ."
    return [
        {"text": f"{filler} {filler} {filler} {text}", "label": label} for text, label in sentences(count, seed=seed)
    ]


@pytest.mark.parametrize("long", ["truncate", "head+tail", "windows"])
def test_long_texts_are_read_as_set_and_cut_off_tokens_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, long: str
) -> None:
    train = write_rows(tmp_path / "train.jsonl", long_rows(240, 1))
    test = write_rows(tmp_path / "test.jsonl", long_rows(60, 2))
    given = {**TINY, "max_length": 24, "num_train_epochs": 4, "pooling": "mean+max"}
    run = hs.finetune(train=train, test=test, long=long, out=tmp_path / "run", **given)
    shares = run.result["truncated_shares"]
    assert run.model.bundle.task.long == long
    assert (shares["train"] > 0.2) == (shares["validation"] > 0.2) == (shares["test"] > 0.2) == (long != "windows")
    assert run.result["test"]["truncated_share"] == shares["test"]
    assert (
        f"{100 * shares['test']:.1f} % of the test tokens are cut off (at most 24 tokens per text are read)"
        in caplog.text
    )
    assert f"{100 * shares['validation']:.1f} % of the validation tokens are cut off" in caplog.text
    accuracy = run.result["test"]["accuracy"]
    assert accuracy > 0.9 if long != "truncate" else accuracy < 0.7
    caplog.clear()
    run.model.predict([long_rows(1, 3)[0]["text"]])
    assert ("tokens were cut off" in caplog.text) == (long != "windows")


def test_long_sentences_and_contexts_are_read_in_windows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    rows = questions(600, seed=1, padding=4, unanswerable=0.2)
    train = write_rows(tmp_path / "train.jsonl", rows)
    test = write_rows(tmp_path / "test.jsonl", questions(100, seed=2, padding=4, unanswerable=0.2))
    run = hs.finetune(train=train, test=test, out=tmp_path / "run", doc_stride=12, **{**TINY, "max_length": 26})
    assert "longer than a window, read in several" in caplog.text
    assert run.model.bundle.task.has_unanswerable
    assert run.result["test"]["num_unanswerable"] > 5
    assert run.result["test"]["exact_match"] > 0.9
    context = "the film was fine . " * 6 + "anna lives in port louis . " + "the story was warm . " * 6
    found = run.model.predictions(
        [("where does anna live ?", context), ("where does anna live ?", "the film was fine .")]
    )
    assert [answer.answer for answer in found] == ["port louis", ""]
    assert context[found[0].start : found[0].end] == "port louis"
    joined = [
        {name: [value for row in part for value in row[name]] for name in ("tokens", "tags")}
        for part in (tagged(400, seed=1)[at : at + 4] for at in range(0, 400, 4))
    ]
    train = write_rows(tmp_path / "tags.jsonl", joined)
    test = write_rows(tmp_path / "test-tags.jsonl", joined[:20])
    caplog.clear()
    run = hs.finetune(train=train, test=test, out=tmp_path / "tagger", **{**TINY, "max_length": 16})
    assert "sentences longer than 16 tokens, read in windows" in caplog.text
    assert run.result["test"]["num_words"] == sum(len(row["tokens"]) for row in joined[:20])
    assert run.result["test"]["num_unread_words"] == 0
    assert run.result["test"]["f1"] > 0.95


# On a base


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> hs.Run:
    """A masked base, pre-trained on all the grammars."""
    folder = tmp_path_factory.mktemp("base")
    texts = [text for task in ("classify", "multilabel", "regress") for text in (r["text"] for r in ROWS[task](150))]
    texts += [" ".join(row["tokens"]) for row in tagged(150)]
    texts += [f"{row['question']} {row['context']}" for row in questions(150)]
    (folder / "corpus.txt").write_text("\n".join(texts))
    shape = {name: TINY[name] for name in ("preset", "hidden_size", "num_hidden_layers", "num_attention_heads",
                                           "intermediate_size", "kind", "max_length", "device", "threads")}  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
        return hs.pretrain(folder / "corpus.txt", objective="masked", out=folder / "base", max_steps=20, **shape)


@pytest.mark.parametrize("trainable", ["all", "lora", "head"])
@pytest.mark.parametrize("task", ROWS)
def test_every_task_starts_from_a_base_and_adapts_it_in_every_way(
    base: hs.Run, tmp_path: Path, task: str, trainable: str
) -> None:
    train = write_rows(tmp_path / "train.jsonl", ROWS[task](60, seed=1))
    run = hs.finetune(
        base, train=train, task=task, trainable=trainable, out=tmp_path / "run", num_train_epochs=2, device="cpu",
        threads=1,
    )  # fmt: skip
    ledger = json.loads((run.path / "ledger.json").read_text())
    assert ledger["carried"]["tensors"] == len(base.model.bundle.model.base.state_dict())
    assert (run.model.bundle.model.shape.lora is not None) == (trainable == "lora")
    assert run.result["parameters"]["trainable"] < run.result["parameters"]["total"] or trainable == "all"
    assert run.result["reload_check"]["examples"] == 32
    assert run.model.bundle.verify() == []
    assert len(run.model.predict(INPUTS[task])) == len(INPUTS[task])
    history = run.result["history"]
    assert history[0] != history[-1]


# What is detected and refused


def test_a_conll_file_is_a_tagging_task_and_an_unknown_tag_is_named(tmp_path: Path) -> None:
    for name, count, kind in (("train", 60, "PER"), ("test", 9, "GPE")):
        rows = tagged(count, seed=len(name))
        lines = [
            "".join(f"{word} X {tag}\n" for word, tag in zip(row["tokens"], row["tags"], strict=True)) for row in rows
        ]
        (tmp_path / f"{name}.conll").write_text("\n".join(lines).replace("PER", kind))
    with pytest.raises(
        InputError, match=r"test\.conll, line \d+: the tag 'B-GPE' of the test set does not occur in train"
    ):
        hs.finetune(train=tmp_path / "train.conll", test=tmp_path / "test.conll", out=tmp_path / "run", **TINY)
    assert not (tmp_path / "run").exists()
    run = hs.finetune(train=tmp_path / "train.conll", out=tmp_path / "run", **{**TINY, "num_train_epochs": 1})
    assert run.result["task"] == "tag"
    assert "train_f1" in run.result["history"][0], "too few examples to hold any out"


@pytest.mark.parametrize(("task", "direction"), [("classify", "bidirectional"), ("tag", "bidirectional")])
def test_a_base_from_scratch_is_bidirectional_unless_another_direction_is_given(
    tmp_path: Path, task: str, direction: str, caplog: pytest.LogCaptureFixture
) -> None:
    train = write_rows(tmp_path / "train.jsonl", ROWS[task](30))
    given = {name: value for name, value in TINY.items() if name != "direction"} | {"num_train_epochs": 1}
    run = hs.finetune(train=train, out=tmp_path / "run", **given)
    assert run.model.bundle.model.shape.direction == direction
    assert load_recipe(FinetuneRecipe, run.path / "recipe.toml").model.direction == direction
    assert "The base is causal" not in caplog.text
    hs.finetune(train=train, out=tmp_path / "other", direction="causal", **given)
    assert ("The base is causal" in caplog.text) == (task == "tag")


def test_a_number_is_a_class_unless_the_task_is_regress(tmp_path: Path) -> None:
    rows = [{"text": text, "label": float(label == "pos")} for text, label in sentences(60)]
    train = write_rows(tmp_path / "train.jsonl", rows)
    run = hs.finetune(train=train, out=tmp_path / "classes", **{**TINY, "num_train_epochs": 1})
    assert run.result["task"] == "classify"
    run = hs.finetune(train=train, task="regress", out=tmp_path / "values", **{**TINY, "num_train_epochs": 1})
    assert set(run.result["history"][-1]) >= {"train_mse", "train_mae", "train_pearson", "train_r2"}


@pytest.mark.parametrize(
    ("task", "settings", "words"),
    [
        ("tag", {"text_column": "x"}, "text_column cannot be set: the task tag does not read it"),
        ("tag", {"pooling": "last"}, "pooling cannot be set"),
        ("span", {"class_weight": "balanced"}, "class_weight has no effect on the task span"),
        ("regress", {"metric_for_best_model": "accuracy"}, "metric_for_best_model is 'accuracy', but the task regress"),
        ("classify", {"doc_stride": 3}, "doc_stride is for windows"),
    ],
)
def test_settings_without_effect_are_refused(tmp_path: Path, task: str, settings: dict[str, Any], words: str) -> None:
    train = write_rows(tmp_path / "train.jsonl", ROWS[task](40))
    with pytest.raises(SettingError, match=words):
        hs.finetune(train=train, task=task, out=tmp_path / "run", **TINY, **settings)
    assert not (tmp_path / "run").exists()


def test_class_weights_help_a_rare_class(tmp_path: Path) -> None:
    """With 5 % of one class and few steps the plain model predicts the other class for every text."""
    rows = ROWS["classify"](2_000, seed=1)
    rare = [row for row in rows if row["label"] == "pos"][:15]
    train = write_rows(tmp_path / "train.jsonl", [row for row in rows if row["label"] == "neg"][:285] + rare)
    test = write_rows(tmp_path / "test.jsonl", ROWS["classify"](100, seed=2))
    recall = {}
    for weight in ("none", "balanced"):
        run = hs.finetune(
            train=train, test=test, class_weight=weight, out=tmp_path / weight,
            **{**TINY, "num_train_epochs": 2, "learning_rate": 2e-3},
        )  # fmt: skip
        recall[weight] = run.result["test"]["confusion"][1][1] / 50
    assert recall["balanced"] > recall["none"]
