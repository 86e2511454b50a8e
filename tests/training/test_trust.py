"""Ways in which a run could go wrong without a word, and does not."""

import json
import logging
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import headswap as hs
from headswap.core.errors import HeadswapError, InputError, RunError, SettingError
from headswap.data.records import Document
from headswap.inference.predict import predict_texts
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.store import build_store
from headswap.tokens.train_tokenizer import train_tokenizer
from tiny import write_labelled

SHAPE = {"preset": "lab", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
PRETRAINING = {**SHAPE, "max_length": 32, "batch_size": 8, "device": "cpu", "threads": 1}


class StopAt(hs.Observer):
    """Fails at a step, as a crash would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, line: dict) -> None:
        if line["step"] >= self.step:
            raise RuntimeError("crash")


@pytest.fixture
def base(corpus_file: Path, tmp_path: Path) -> hs.Run:
    return hs.pretrain(corpus_file, out=tmp_path / "base", max_steps=4, **PRETRAINING)


@pytest.fixture
def train(tmp_path: Path) -> Path:
    return write_labelled(tmp_path / "train.jsonl", 60)


def test_a_corpus_that_changed_since_the_run_began_is_not_resumed(corpus_file: Path, tmp_path: Path) -> None:
    settings = {**PRETRAINING, "max_steps": 20, "save_steps": 5, "logging_steps": 5}
    tokenizer = hs.pretrain(corpus_file, out=tmp_path / "first", **{**settings, "max_steps": 1}).path
    settings["tokenizer"] = str(tokenizer)
    with pytest.raises(RuntimeError, match="crash"):
        hs.pretrain(corpus_file, out=tmp_path / "run", observer=StopAt(10), **settings)
    corpus_file.write_text(corpus_file.read_text().replace("film", "story"))
    with pytest.raises(SettingError, match=r"The corpus .*changed since"):
        hs.pretrain(corpus_file, out=tmp_path / "run", resume=True, **settings)


def write_store(folder: Path, corpus_file: Path, *, lines_per_document: int) -> Path:
    """A token store of whole words, so that its ids are the same wherever documents begin; it replaces an older one."""
    lines = corpus_file.read_text(encoding="utf-8").splitlines()
    whole = train_tokenizer([Document(line, "corpus", 1) for line in lines], TokenizerSettings(kind="word"))
    starts = range(0, len(lines), lines_per_document)
    texts = [" ".join(lines[start : start + lines_per_document]) for start in starts]
    build_store([Document(text, "corpus", 1) for text in texts], whole, folder)
    return folder


@pytest.mark.parametrize("is_finished", [False, True])
def test_a_token_store_that_was_rebuilt_in_place_is_not_resumed_from(
    corpus_file: Path, tmp_path: Path, is_finished: bool
) -> None:
    settings = {**PRETRAINING, "max_steps": 6, "save_steps": 2, "logging_steps": 2}
    store = write_store(tmp_path / "store", corpus_file, lines_per_document=1)
    if is_finished:
        hs.pretrain(store, out=tmp_path / "run", **settings)
    else:
        with pytest.raises(RuntimeError, match="crash"):
            hs.pretrain(store, out=tmp_path / "run", observer=StopAt(4), **settings)
    ids = (store / "ids.bin").read_bytes()
    write_store(store, corpus_file, lines_per_document=2)
    assert (store / "ids.bin").read_bytes() == ids
    with pytest.raises(SettingError, match="The boundaries of the documents changed since"):
        hs.pretrain(store, out=tmp_path / "run", resume=True, **settings)
    write_store(store, corpus_file, lines_per_document=1)
    assert hs.pretrain(store, out=tmp_path / "run", resume=True, **settings).is_finished


def test_a_run_that_records_too_little_to_be_checked_is_not_resumed(base: hs.Run, corpus_file: Path) -> None:
    """As a run that an older version began."""
    data = json.loads((base.path / "data.json").read_text())
    del data["boundaries of the documents"]
    (base.path / "data.json").write_text(json.dumps(data))
    with pytest.raises(SettingError, match=r"has no checksum of the boundaries .* an older version of headswap"):
        hs.pretrain(corpus_file, out=base.path, resume=True, max_steps=4, **PRETRAINING)
    (base.path / "data.json").unlink()
    with pytest.raises(SettingError, match=r"has no checksum of the corpus .* the file was lost"):
        hs.pretrain(corpus_file, out=base.path, resume=True, max_steps=4, **PRETRAINING)


def test_a_finished_run_says_so_only_to_the_same_settings_data_and_verb(
    base: hs.Run, train: Path, tmp_path: Path
) -> None:
    corpus = tmp_path / "corpus.txt"
    assert hs.pretrain(corpus, out=base.path, resume=True, max_steps=4, **PRETRAINING).is_finished
    with pytest.raises(SettingError, match=r"training\.max_steps was 4 and is now 8"):
        hs.pretrain(corpus, out=base.path, resume=True, max_steps=8, **PRETRAINING)
    before = corpus.read_text()
    corpus.write_text(before.replace("film", "book"))
    with pytest.raises(SettingError, match=r"The corpus .*changed since"):
        hs.pretrain(corpus, out=base.path, resume=True, max_steps=4, **PRETRAINING)
    corpus.write_text(before)
    with pytest.raises(SettingError, match="holds a run of headswap pretrain"):
        hs.finetune("scratch", train=train, out=base.path, resume=True)
    out = tmp_path / "classifier"
    hs.finetune(base, train=train, out=out, num_train_epochs=1, threads=1)
    write_labelled(train, 62)
    with pytest.raises(SettingError, match="The training set changed since"):
        hs.finetune(base, train=train, out=out, num_train_epochs=1, threads=1, resume=True)


def test_a_run_never_removes_what_it_reads(base: hs.Run, train: Path) -> None:
    for flags in ({"overwrite": True}, {}):
        with pytest.raises(SettingError, match="the input"):
            hs.finetune(base, train=train, out=base.path, **flags)
    assert base.model.bundle.model is not None


def test_overwrite_and_resume_exclude_each_other(corpus_file: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="both given"):
        hs.pretrain(corpus_file, out=tmp_path / "x", overwrite=True, resume=True)


def test_settings_of_a_tokenizer_that_is_not_trained_are_refused(
    base: hs.Run, corpus_file: Path, train: Path, tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match="vocab_size cannot be set"):
        hs.pretrain(corpus_file, out=tmp_path / "x", tokenizer=str(base.path), vocab_size=100)
    with pytest.raises(SettingError, match="kind cannot be set"):
        hs.finetune(base, train=train, out=tmp_path / "x", kind="word")


@pytest.mark.parametrize("setting", [{"final_norm": False}, {"preset": "small"}, {"type_vocab_size": 0}])
def test_a_shape_for_a_base_that_has_its_own_is_refused(
    base: hs.Run, train: Path, tmp_path: Path, setting: dict
) -> None:
    with pytest.raises(SettingError, match=f"{next(iter(setting))}: a base that is carried over has its own"):
        hs.finetune(base, train=train, out=tmp_path / "run", **setting)


def test_a_flag_for_one_limit_replaces_the_recipes_other(corpus_file: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[training]\nnum_train_epochs = 50\n")
    run = hs.pretrain(corpus_file, out=tmp_path / "x", config=recipe, max_steps=2, **PRETRAINING)
    assert run.result["steps"] == 2


def test_predict_takes_a_list_of_texts_only(base: hs.Run, train: Path, tmp_path: Path) -> None:
    classifier = hs.finetune(base, train=train, out=tmp_path / "classifier", num_train_epochs=1, threads=1)
    with pytest.raises(InputError, match="not one string"):
        classifier.model.predict("a fine film")
    with pytest.raises(InputError, match="1 is a int"):
        classifier.model.predict([1])  # type: ignore[list-item]
    assert hs.load(classifier.path / "bundle").predict(["a fine film"]) == classifier.model.predict(["a fine film"])


def test_predicting_in_bf16_says_what_it_moved(
    base: hs.Run, train: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = hs.finetune(base, train=train, out=tmp_path / "run", max_steps=1)
    texts = ["the film was fine .", "the story was dull .", "the music was warm ."]
    with caplog.at_level(logging.INFO, logger="headswap"):
        half = predict_texts(run.model.bundle, texts, precision="bf16")
    full = predict_texts(run.model.bundle, texts)
    said = [record.getMessage() for record in caplog.records if "bf16 changes the raw outputs" in record.getMessage()]
    assert len(said) == 1
    assert said[0].startswith("On the first 3 rows bf16 changes the raw outputs by at most ")
    gap = max(abs(one.scores["pos"] - other.scores["pos"]) for one, other in zip(half, full, strict=True))
    assert 0 < gap < 0.01


def test_a_base_that_has_seen_labels_is_told(
    base: hs.Run, train: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    classifier = hs.finetune(base, train=train, out=tmp_path / "classifier", max_steps=1)
    assert "has learnt from labels already" not in caplog.text
    hs.finetune(classifier, train=train, out=tmp_path / "again", max_steps=1)
    assert "is a classifier: it has learnt from labels already" in caplog.text


def test_weights_that_are_not_finite_give_no_answer(base: hs.Run, train: Path, tmp_path: Path) -> None:
    classifier = hs.finetune(base, train=train, out=tmp_path / "classifier", num_train_epochs=1, threads=1)
    file = classifier.path / "bundle" / "model.safetensors"
    state = load_file(file)
    state["head.output.bias"] = torch.full_like(state["head.output.bias"], float("nan"))
    save_file(state, file)
    with pytest.raises(RunError, match="not finite"):
        hs.load(classifier.path).predict(["a fine film"])


def test_what_is_cut_off_is_said(base: hs.Run, train: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    classifier = hs.finetune(base, train=train, out=tmp_path / "classifier", num_train_epochs=1, threads=1)
    classifier.model.predict(["the film was lovely " * 50])
    assert "tokens were cut off" in caplog.text
    base.model.generate("the film was lovely " * 50, max_new_tokens=1)
    assert "the model uses the last 32 of them" in caplog.text


def test_sampling_flags_without_a_temperature_are_refused(base: hs.Run) -> None:
    with pytest.raises(SettingError, match="need a temperature above 0"):
        base.model.generate("the", top_k=5)
    with pytest.raises(HeadswapError, match="max_new_token is not a setting"):
        base.model.generate("the", max_new_token=5)


def test_loading_twice_and_generating_twice_works(base: hs.Run) -> None:
    assert hs.load(base.path).generate("the", max_new_tokens=3) == hs.load(base.path).generate("the", max_new_tokens=3)


def test_test_texts_that_stand_in_train_are_counted(
    base: hs.Run, train: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hs.finetune(base, train=train, test=train, out=tmp_path / "classifier", num_train_epochs=1, threads=1)
    assert "60 test texts also in train" in caplog.text


def test_texts_in_validation_and_test_are_counted(
    base: hs.Run, train: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    test = write_labelled(tmp_path / "test.jsonl", 20, seed=2)
    hs.finetune(base, train=train, validation=test, test=test, out=tmp_path / "run", max_steps=1, threads=1)
    assert "20 test texts also in validation" in caplog.text


def test_label_files_without_their_set_are_refused(base: hs.Run, train: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="test_label_file is given, but no test set"):
        hs.finetune(base, train=train, test_label_file="nowhere.txt", out=tmp_path / "run")


def test_another_base_at_the_same_place_is_not_resumed(corpus_file: Path, train: Path, tmp_path: Path) -> None:
    base = hs.pretrain(corpus_file, out=tmp_path / "base", max_steps=2, **PRETRAINING)
    settings = {"train": train, "out": tmp_path / "run", "max_steps": 8, "save_steps": 2, "logging_steps": 2}
    with pytest.raises(RuntimeError, match="crash"):
        hs.finetune(base, observer=StopAt(4), threads=1, **settings)
    hs.pretrain(corpus_file, out=base.path, overwrite=True, max_steps=2, seed=7, **PRETRAINING)
    with pytest.raises(SettingError, match="The base changed since"):
        hs.finetune(base, resume=True, threads=1, **settings)


def test_held_out_documents_that_stand_in_training_are_counted(
    corpus_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    documents = [f"document number {number} says {number * number}" for number in range(100)]
    corpus_file.write_text("\n".join(documents))
    hs.pretrain(corpus_file, out=tmp_path / "once", max_steps=1, held_out_fraction=0.1, **PRETRAINING)
    assert "held-out documents also stand" not in caplog.text
    corpus_file.write_text("\n".join(documents * 2))
    hs.pretrain(corpus_file, out=tmp_path / "twice", max_steps=1, held_out_fraction=0.1, **PRETRAINING)
    found = re.search(r"(\d+) of the (\d+) held-out documents also stand in the training part", caplog.text)
    assert found is not None
    assert 15 <= int(found[1]) <= int(found[2]) == 20


def test_finetuning_says_in_one_line_each_what_is_wrong_with_the_labels(
    base: hs.Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [{"text": f"one thing and number {number}", "label": "ab"[number % 2]} for number in range(40)]
    rows += [{"text": "one thing and number 3", "label": "a"}, {"text": "one thing and number 4", "label": "a"}]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    hs.finetune(base, out=tmp_path / "run", train=tmp_path / "train.jsonl", max_steps=1, device="cpu")
    lines = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("Train: 1 text with different labels (line 4: 'b', line 41") for line in lines)
    assert any(line.startswith("Train: 1 of 42 texts repeat an earlier one") for line in lines)


def test_pretraining_says_in_one_line_each_what_is_wrong_with_the_corpus(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "corpus.txt").write_text("a text of its own\nanother text\n" * 2 + "and a third\n")
    hs.pretrain(tmp_path / "corpus.txt", out=tmp_path / "run", max_steps=1, **PRETRAINING)
    lines = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("Corpus: 2 of 5 documents repeat an earlier one, token for token") for line in lines)
    assert any("tokens for" in line and "parameters" in line for line in lines)
