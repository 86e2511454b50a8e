"""`hf:` wherever a base is expected: commands, Python, estimators and arms of a study, on checkpoints made here."""

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import headswap as hs
from bundles import make_bundle
from cli_calls import call, call_json, call_wrong
from headswap.core.errors import InputError, SettingError
from headswap.core.settings import load_recipe
from headswap.inference.embed import embed_texts
from headswap.inference.predict import predict_texts
from headswap.interop.config import ExportSettings
from headswap.interop.hf_out import HuggingFace
from headswap.model.shape import HeadShape
from headswap.study.report.write import write_report
from headswap.study.setup.arms import read_arms
from headswap.study.setup.config import StudyRecipe
from headswap.study.statistics.runs import read_study
from headswap.tokens.tokenizer import Tokenizer
from study_fixture import done_here, sections_of
from tiny import ONE_THREAD

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = ["the film was warm .", "a dull story"]
SHAPES: dict[str, Any] = {
    "causal": ("llama", {"direction": "causal"}),
    "masked": ("bert-base", {"direction": "bidirectional", "lm_head_transform": "gelu"}),
}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Path:
    """A Llama, a BERT, and the BERT without its head and in half precision, as MiniLM is stored for a GPU."""
    folder = tmp_path_factory.mktemp("checkpoints")
    for name, (preset, changes) in SHAPES.items():
        bundle = make_bundle(tokenizer.with_mask_and_sep(), "lm", preset, **changes)
        HuggingFace().export(bundle, folder / name, ExportSettings())
    HuggingFace().export(make_bundle(tokenizer, "tag", "llama"), folder / "tuned", ExportSettings())
    shutil.copytree(folder / "masked", folder / "mini")
    tensors = load_file(folder / "masked" / "model.safetensors")
    bare = {name.removeprefix("bert."): one.half() for name, one in tensors.items() if name.startswith("bert.")}
    save_file(bare, folder / "mini" / "model.safetensors")
    config = (folder / "mini" / "config.json").read_text(encoding="utf-8").replace("BertForMaskedLM", "BertModel")
    (folder / "mini" / "config.json").write_text(config.replace("float32", "float16"), encoding="utf-8")
    return folder


def test_commands_use_a_checkpoint(capsys: pytest.CaptureFixture[str], checkpoints: Path) -> None:
    mini, masked, causal = (f"hf:{checkpoints / name}" for name in ("mini", "masked", "causal"))
    found = call_json(capsys, "embed", mini, TEXTS[0], "--normalize", "--device=cpu")
    expected = hs.load(mini, device="cpu").embed(TEXTS[:1], normalize=True)[0]
    np.testing.assert_allclose(found["vector"], expected, atol=1e-5)
    assert "film" in call(capsys, "generate", causal, "the film", "--max-new-tokens=3", "--device=cpu")
    assert len(call_json(capsys, "fill", masked, "the <mask> was warm", "--device=cpu")["masks"]) == 1
    assert "no language modelling head" in call_wrong(capsys, "fill", mini, "the <mask> was")
    assert "only a causal language model can generate" in call_wrong(capsys, "generate", mini, "the film")


def test_a_fine_tuned_checkpoint_predicts_and_is_evaluated(
    capsys: pytest.CaptureFixture[str], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    bundle = make_bundle(tokenizer, "classify", "llama", classifier=HeadShape(pooling="last", head_bias=False))
    HuggingFace().export(bundle, tmp_path / "hf", ExportSettings())
    found = call_json(capsys, "predict", f"hf:{tmp_path / 'hf'}", TEXTS[0], "--device=cpu")
    (ours,) = predict_texts(bundle, TEXTS[:1])
    assert found["label"] == ours.label
    assert found["scores"] == pytest.approx({label: ours.scores[label] for label in bundle.labels}, abs=1e-5)
    rows = "".join(f'{{"text": "{text}", "label": "{ours.label}"}}\n' for text in (TEXTS[0], TEXTS[0]))
    (tmp_path / "test.jsonl").write_text(rows, encoding="utf-8")
    scored = call_json(capsys, "evaluate", f"hf:{tmp_path / 'hf'}", tmp_path / "test.jsonl", "--device=cpu")
    assert (scored["accuracy"], scored["num_examples"]) == (1.0, 2)


@pytest.mark.parametrize("name", ["mini", "masked", "causal"])
def test_a_checkpoint_is_adapted_and_fine_tuned(
    capsys: pytest.CaptureFixture[str], checkpoints: Path, tiny_runs: Path, tmp_path: Path, name: str
) -> None:
    machine = ("--max-steps=2", "--device=cpu", "--threads=1", "--precision=bf16" if name == "mini" else "--fast=auto")
    base = f"hf:{checkpoints / name}"
    call(capsys, "adapt", base, tiny_runs / "corpus.txt", "--out", tmp_path / "adapted", *machine)
    before, after = (hs.load(place, device="cpu").bundle for place in (base, tmp_path / "adapted"))
    assert after.card["adapted from"] == f"hf:{name}"
    assert after.tokenizer.encode_batch(TEXTS)[0].tolist() == before.tokenizer.encode_batch(TEXTS)[0].tolist()
    assert not torch.equal(before.model.base.embedding.weight, after.model.base.embedding.weight)
    for start, out in ((base, "public"), (tmp_path / "adapted", "after")):
        sets = ("--train", tiny_runs / "few.jsonl", "--test", tiny_runs / "validation.jsonl")
        call(capsys, "finetune", "--base", start, *sets, "--out", tmp_path / out, *machine)
        run = hs.Run(tmp_path / out)
        assert run.result["base"] == (f"hf:{name}" if out == "public" else "adapted")
        assert set(run.model.predict(TEXTS)) <= {"neg", "pos"}
    assert f"base: hf:{name}" in (tmp_path / "public" / "bundle" / "README.md").read_text(encoding="utf-8")


def test_a_checkpoint_without_a_head_is_exported_without_one(
    capsys: pytest.CaptureFixture[str], checkpoints: Path, tmp_path: Path
) -> None:
    found = call_json(capsys, "export", f"hf:{checkpoints / 'mini'}", "--to", "hf", "--out", tmp_path / "hf")
    assert found["class"] == "AutoModel"
    before, after = (hs.load(f"hf:{place}").bundle for place in (checkpoints / "mini", tmp_path / "hf"))
    assert after.objective == "none"
    ours = before.model.base.state_dict()
    assert all(ours[name].equal(tensor) for name, tensor in after.model.base.state_dict().items())


def test_a_checkpoint_is_downloaded_only_with_the_flag(
    capsys: pytest.CaptureFixture[str], checkpoints: Path, tiny_runs: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    import huggingface_hub

    asked = []

    def snapshot_download(name: str, **_: Any) -> str:
        asked.append(name)
        return str(checkpoints / name.partition("/")[2])

    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    labelled = ("--train", tiny_runs / "few.jsonl", "--out", tmp_path / "run", "--max-steps=1", "--device=cpu")
    commands: list[tuple[object, ...]] = [
        ("embed", "hf:owner/mini", "a", "--device=cpu"),
        ("fill", "hf:owner/masked", "the <mask>", "--device=cpu"),
        ("generate", "hf:owner/causal", "the", "--device=cpu", "--max-new-tokens=1"),
        ("finetune", "--base", "hf:owner/mini", *labelled),
    ]
    for command in commands:
        assert "--allow-download" in call_wrong(capsys, *command)
    assert asked == []
    for command in commands:
        call(capsys, *command, "--allow-download")
    assert set(asked) == {"owner/mini", "owner/masked", "owner/causal"}
    card = (tmp_path / "run" / "bundle" / "README.md").read_text(encoding="utf-8")
    assert "base_model: owner/mini" in card


def test_estimators_take_a_checkpoint_and_their_pickles_need_no_folder(checkpoints: Path, tmp_path: Path) -> None:
    shutil.copytree(checkpoints / "mini", tmp_path / "mini")
    base = f"hf:{tmp_path / 'mini'}"
    vectors = embed_texts(hs.load(base, device="cpu").bundle, TEXTS)
    embedder = hs.TextEmbedder(base, device="cpu").fit(TEXTS)
    np.testing.assert_array_equal(embedder.transform(TEXTS), vectors)
    classifier = hs.TextClassifier(base, max_steps=2, **ONE_THREAD).fit(TEXTS * 4, ["pos", "neg"] * 4)
    pickles = [pickle.dumps(one) for one in (embedder, classifier)]
    shutil.rmtree(tmp_path / "mini")
    restored_embedder, restored_classifier = map(pickle.loads, pickles)
    np.testing.assert_allclose(restored_embedder.transform(TEXTS), vectors, atol=1e-6)
    np.testing.assert_allclose(restored_classifier.predict_proba(TEXTS), classifier.predict_proba(TEXTS), atol=1e-6)


def arm_of(name: str, **machine: Any) -> Any:
    sections = {"study": {"arms": name, "corpus": ("c.txt",)}, "machine": machine}
    (found,) = read_arms(load_recipe(StudyRecipe, None, sections))
    return found


def test_arms_are_named_by_the_checkpoint(checkpoints: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = checkpoints / "mini"
    for prefix, start in (("", "bundle"), ("adapted:", "adapted"), ("linear:", "linear"), ("consistency:", "bundle")):
        arm = arm_of(f"{prefix}hf:{folder}")
        assert (arm.name, arm.start) == (f"{prefix}hf:mini", start)
        assert (arm.of or arm).bundle == f"hf:{folder}"
    assert arm_of(f"linear:adapted:hf:{folder}").of.start == "adapted"
    monkeypatch.chdir(checkpoints)
    assert arm_of("hf:./mini").bundle == f"hf:{folder}", "jobs run in other folders"
    for name in ("hf:", "linear:hf:", "adapted:hf:"):
        with pytest.raises(InputError, match="fine-tuned already"):
            arm_of(f"{name}{checkpoints / 'tuned'}")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises((InputError, SettingError), match="--allow-download"):
        arm_of("linear:hf:owner/missing")


def test_a_study_of_a_checkpoint_warns_that_it_may_have_seen_the_test_texts(
    checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headswap.study.report.write.draw_figures", lambda *_, **__: [])
    out = tmp_path / "out"
    arms = tuple(f"{prefix}hf:{checkpoints / 'mini'}" for prefix in ("", "linear:", "adapted:"))
    given = sections_of(tmp_path, arms=("tfidf", *arms), budgets=("40",), seeds=1)
    done_here(out, given | {"adapt": {"max_steps": 2}})
    study = read_study(out)
    assert {run.arm for run in study.runs} == {"tfidf", "hf:mini", "linear:hf:mini", "adapted:hf:mini"}
    write_report(study, out)
    report = (out / "report.md").read_text(encoding="utf-8")
    arms = "'hf:mini', 'linear:hf:mini' and 'adapted:hf:mini'"
    assert f"The arms {arms} start from the public checkpoint hf:mini, which may have been trained on" in report
