"""The command line: data on standard output, sentences on standard error, exit codes, and nothing imported early."""

import inspect
import io
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

import headswap as hs
from headswap.cli.app import VERBS, run
from headswap.cli.main import main
from headswap.core.errors import SettingError, counted
from headswap.inference.embed import embed_texts
from headswap.tokens.store import TokenStore
from tiny import sentences, write_labelled

SHAPE = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
FLAGS = [f"--{name.replace('_', '-')}={value}" for name, value in SHAPE.items()]
MACHINE = ["--device=cpu", "--threads=1"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, labelled sets, a base and a classifier."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "corpus.txt").write_text("".join(f"{text}\n" for text, _ in sentences(120)), encoding="utf-8")
    write_labelled(folder / "train.jsonl", 60)
    write_labelled(folder / "test.jsonl", 20, seed=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
        machine: dict[str, Any] = {"device": "cpu", "threads": 1}
        base = hs.pretrain(folder / "corpus.txt", out=folder / "base", max_steps=5, max_length=24, **SHAPE, **machine)
        hs.finetune(
            base, out=folder / "classifier", train=folder / "train.jsonl", num_train_epochs=6, learning_rate=0.01,
            **machine,
        )  # fmt: skip
    return folder


def call(capsys: pytest.CaptureFixture[str], *argv: object) -> str:
    """Standard output of a command that must work."""
    code = run([str(part) for part in argv])
    out, err = capsys.readouterr()
    assert code == 0, err
    return out


def call_json(capsys: pytest.CaptureFixture[str], *argv: object) -> dict[str, Any]:
    """The one object that a verb prints with --json."""
    out = call(capsys, *argv, "--json")
    assert out.count("\n") == 1, "one object, one line"
    return json.loads(out)


def call_wrong(capsys: pytest.CaptureFixture[str], *argv: object, code: int = 2) -> str:
    """The sentence of a command that must be refused."""
    found = run([str(part) for part in argv])
    out, err = capsys.readouterr()
    assert found == code, err
    assert out == "", "nothing on standard output"
    assert err.startswith("headswap: ")
    assert "Traceback" not in err
    assert err.rstrip().endswith((".", "?"))
    return err


# Help and imports


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_help_page(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    out = call(capsys, verb, "--help")
    assert f"headswap {verb}" in out
    shown = " ".join(out.split())
    function = getattr(import_module(f"headswap.cli.{verb}"), verb)
    told = [" ".join(part.split()) for part in inspect.getdoc(function).split("\n\nParameters")[0].split("\n\n")]
    assert all(paragraph in shown for paragraph in told)
    assert any("Example: headswap " in paragraph for paragraph in told) or verb in ("demo", "datasets")
    assert not set(VERBS[verb].split()[:2]) - set(told[0].split()), "the list of verbs says the same"


def test_the_help_page_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    out = call(capsys, "--help")
    assert all(verb in out for verb in VERBS)


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "--version").strip() == hs.__version__


def modules_after(*argv: str) -> set[str]:
    """The packages that a command has imported when it ends."""
    code = (
        "import sys\nfrom headswap.cli.app import run\n"
        f"assert run({list(argv)!r}) == 0\n"
        "print('\\n' + ' '.join(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def test_the_help_page_imports_nothing_heavy() -> None:
    assert not {"torch", "sklearn", "scipy", "matplotlib", "transformers"} & modules_after("--help")


def test_a_verbs_help_page_does_not_import_torch() -> None:
    assert not {"torch", "sklearn", "scipy"} & modules_after("pretrain", "--help")


def test_predict_imports_neither_scikit_learn_nor_scipy(shared: Path) -> None:
    found = modules_after("predict", str(shared / "classifier"), "a fine film")
    assert "torch" in found
    assert not {"sklearn", "scipy", "matplotlib"} & found


# Wrong use


def test_a_wrong_verb_is_told_what_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert "'pretrian' is not a verb. Did you mean 'pretrain'?" in call_wrong(capsys, "pretrian")


def test_a_wrong_flag_is_named(capsys: pytest.CaptureFixture[str], shared: Path) -> None:
    err = call_wrong(capsys, "pretrain", shared / "corpus.txt", "--out", "x", "--learning-rat", "1")
    assert "Did you mean --learning-rate? See headswap pretrain --help." in err


@pytest.mark.parametrize(
    ("flag", "value"), [("--max-steps", "0"), ("--max-steps", "many"), ("--preset", "huge"), ("--learning-rate", "-1")]
)
def test_a_wrong_value_is_named_with_its_flag(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path, flag: str, value: str
) -> None:
    err = call_wrong(capsys, "pretrain", shared / "corpus.txt", "--out", tmp_path / "run", flag, value)
    assert flag in err
    assert value in err
    assert not (tmp_path / "run").exists()


def test_a_missing_out_is_named(capsys: pytest.CaptureFixture[str], shared: Path) -> None:
    assert "--out is missing" in call_wrong(capsys, "pretrain", shared / "corpus.txt")
    assert "--out needs a value" in call_wrong(capsys, "pretrain", shared / "corpus.txt", "--out")


def test_a_missing_corpus_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "nothing.txt" in call_wrong(capsys, "pretrain", tmp_path / "nothing.txt", "--out", tmp_path / "run")
    assert "No corpus is given" in call_wrong(capsys, "pretrain", "--out", tmp_path / "run")
    assert "No training set is given" in call_wrong(capsys, "finetune", "--out", tmp_path / "run")
    assert "No corpus is given" in call_wrong(capsys, "tokenizer", "--out", tmp_path / "t.json")


def test_a_recipe_that_is_wrong_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text("[training]\nlearning_rat = 1\n")
    err = call_wrong(capsys, "pretrain", "x.txt", "--out", tmp_path / "run", "--config", tmp_path / "recipe.toml")
    assert "training.learning_rat is not a setting" in err
    assert "Did you mean 'learning_rate'?" in err


def test_a_model_that_cannot_do_what_is_asked_is_told_which_verb_can(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    assert "headswap generate" in call_wrong(capsys, "predict", shared / "base", "text")
    assert "headswap predict" in call_wrong(capsys, "generate", shared / "classifier", "text")
    assert "does not exist" in call_wrong(capsys, "predict", tmp_path / "nothing", "text")


def test_a_label_the_classifier_never_saw_is_named(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    (tmp_path / "odd.jsonl").write_text('{"text": "so so", "label": "neutral"}\n')
    assert "neutral" in call_wrong(capsys, "evaluate", shared / "classifier", tmp_path / "odd.jsonl", *MACHINE)


# Every verb


def test_params_count_the_labs_model(capsys: pytest.CaptureFixture[str], shared: Path) -> None:
    given = ["params", "--preset", "lab", "--vocab-size", "100", "--head"]
    assert call_json(capsys, *given, "lm")["total"] == 1_008_100
    found = call_json(capsys, *given, "classify")
    assert found["total"] == 988_402 == sum(part["count"] for part in found["parts"])
    assert call_json(capsys, "params", shared / "base")["trainable"] > 0
    assert "has its own shape" in call_wrong(capsys, "params", shared / "base", "--preset", "lab")
    assert "1,008,100" in call(capsys, *given, "lm")


@pytest.mark.skipif(torch.cuda.is_available(), reason="here --device cuda is no mistake")
@pytest.mark.parametrize(("verb", "folder"), [("predict", "classifier"), ("embed", "base"), ("generate", "base")])
def test_a_device_that_is_not_there_is_refused_and_the_fast_kernels_are_a_choice(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, shared: Path, verb: str, folder: str
) -> None:
    assert "no CUDA device" in call_wrong(capsys, verb, shared / folder, "the film", "--device", "cuda")
    with pytest.raises(SettingError, match=r"'cuda:1' is not allowed\. Allowed: auto, cpu, cuda"):
        _ = hs.load(shared / folder, device="cuda:1").bundle
    on_cpu = call(capsys, verb, shared / folder, "the film", "--device", "cpu", "--json")
    assert on_cpu == call(capsys, verb, shared / folder, "the film", "--json")
    seen = []
    monkeypatch.setattr("headswap.training.device.allow_fast_kernels", seen.append)
    assert call(capsys, verb, shared / folder, "the film", "--fast", "off")
    assert seen == [False]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; run the tests on a machine with one")
def test_a_cuda_device_is_taken_where_there_is_one_and_answers_alike(
    capsys: pytest.CaptureFixture[str], shared: Path
) -> None:
    for verb, folder in (("predict", "classifier"), ("embed", "base"), ("generate", "base")):
        found = []
        for device in ("cpu", "cuda", "auto"):
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.max_memory_allocated()
            found.append(call_json(capsys, verb, shared / folder, "the film was", "--device", device))
            assert (torch.cuda.max_memory_allocated() > before) == (device != "cpu"), (verb, device)
        assert found[1] == found[2]
        for name, value in found[0].items():
            assert found[1][name] == (value if isinstance(value, str) else pytest.approx(value, abs=1e-3))
    assert hs.load(shared / "classifier").bundle.model.device.type == "cuda"
    assert hs.load(shared / "classifier", device="cpu").bundle.model.device.type == "cpu"


def test_predict_answers_one_object_a_line_in_input_order(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["the film was superb .", "the film was dull and the story was awful .", "the music was lovely ."]
    given = call(capsys, "predict", shared / "classifier", *texts, "--json")
    answers = [json.loads(line) for line in given.splitlines()]
    assert [answer["label"] for answer in answers] == ["pos", "neg", "pos"]
    for answer in answers:
        assert set(answer) == {"label", "scores"}
        assert set(answer["scores"]) == {"neg", "pos"}
        assert sum(answer["scores"].values()) == pytest.approx(1)
        assert answer["label"] == max(answer["scores"], key=answer["scores"].__getitem__)
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    assert call(capsys, "predict", shared / "classifier", "--file", tmp_path / "texts.txt", "--json") == given
    for extra in ([], ["--file", "-"]):
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(texts) + "\n"))
        assert call(capsys, "predict", shared / "classifier", "--json", *extra) == given
    plain = call(capsys, "predict", shared / "classifier", texts[0])
    assert re.match(r"pos\t[01]\.\d{4}\n", plain)
    assert "both given" in call_wrong(capsys, "predict", shared / "classifier", "x", "--file", "y")
    monkeypatch.setattr("sys.stdin", io.StringIO("one\n\nthree\n"))
    assert "line 2" in call_wrong(capsys, "predict", shared / "classifier")
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(texts) + "\n\n \n"))
    assert call(capsys, "predict", shared / "classifier", "--json", "--file", "-") == given, "blank lines at the end"
    monkeypatch.setattr("sys.stdin", io.StringIO("\n\n"))
    assert "has no text" in call_wrong(capsys, "predict", shared / "classifier")
    (tmp_path / "texts.csv").write_text('text\n"one"\n" "\n')
    assert "line 2" in call_wrong(capsys, "predict", shared / "classifier", "--file", tmp_path / "texts.csv")


def test_generate_continues_a_prompt(capsys: pytest.CaptureFixture[str], shared: Path) -> None:
    found = call_json(capsys, "generate", shared / "base", "the film", "--max-new-tokens", "5")
    assert set(found) == {"prompt", "text", "num_tokens", "ended"}
    assert found["num_tokens"] <= 5
    plain = call(capsys, "generate", shared / "base", "the film", "--max-new-tokens", "5")
    assert plain == f"the film{found['text']}\n"
    assert "--temperature" in call_wrong(capsys, "generate", shared / "base", "x", "--temperature", "-1")


def test_generate_reads_prompts_from_standard_input(
    capsys: pytest.CaptureFixture[str], shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = ["the film", "the story was"]
    expected = "\n".join(call(capsys, "generate", shared / "base", one, "--max-new-tokens", "5") for one in prompts)
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(prompts) + "\n"))
    assert call(capsys, "generate", shared / "base", "-", "--max-new-tokens", "5") == expected


def test_a_file_called_dash_is_standard_input_for_every_reader_of_texts(
    capsys: pytest.CaptureFixture[str], shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for verb, code in (("embed", 0), ("fill", 2)):
        monkeypatch.setattr("sys.stdin", io.StringIO("a <mask> film\n"))
        assert run([verb, str(shared / "base"), "--file", "-"]) == code
    assert "masked language model" in capsys.readouterr().err, "the text was read, the model is another"


def test_nothing_asked_is_nothing_answered(shared: Path) -> None:
    classifier = hs.load(shared / "classifier")
    assert classifier.model.predict([]) == []
    assert classifier.model.predictions(()) == []
    assert embed_texts(classifier.model.bundle, []).shape == (0, 32)


def test_pretrain_prints_its_result_and_speaks_on_standard_error(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    given = ["pretrain", shared / "corpus.txt", "--max-steps", 2, "--max-length=24", *FLAGS, *MACHINE]
    code = run([*map(str, given), "--out", str(tmp_path / "run"), "--json"])
    out, err = capsys.readouterr()
    assert code == 0
    assert json.loads(out)["steps"] == 2
    assert "ln V" in err
    quiet = run([*map(str, given), "--out", str(tmp_path / "quiet"), "--quiet"])
    assert (quiet, *capsys.readouterr()) == (0, "", "")
    assert "not empty" in call_wrong(capsys, *given, "--out", tmp_path / "run")
    assert call_json(capsys, *given, "--out", tmp_path / "run", "--resume")["steps"] == 2
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    run([*map(str, given), "--out", str(tmp_path / "run"), "--resume"])
    size = f"on {counted(result['held_out_documents'], 'document')}, {result['held_out_tokens']:,} tokens (perplexity"
    assert size in " ".join(capsys.readouterr().err.split())


def test_dashes_and_underscores_both_work(capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path) -> None:
    for number, flag in enumerate(("--learning_rate", "--learning-rate")):
        out = tmp_path / str(number)
        call(capsys, "pretrain", shared / "corpus.txt", "--out", out, "--max-steps=1", "--max-length=24", flag, "0.007",
             *FLAGS, *MACHINE)  # fmt: skip
        assert "learning_rate = 0.007" in (out / "recipe.toml").read_text()


def test_flags_win_over_the_recipe(capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path) -> None:
    call(capsys, "pretrain", "--config", shared / "base" / "recipe.toml", "--out", tmp_path / "run", "--max-steps", "2")
    recipe = (tmp_path / "run" / "recipe.toml").read_text()
    assert "max_steps = 2" in recipe
    assert "hidden_size = 32" in recipe


def test_finetune_prints_test_scores_beside_the_baselines(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    given = ["finetune", "--base", shared / "base", "--train", shared / "train.jsonl", "--test", shared / "test.jsonl",
             "--num-train-epochs=1", "--out", tmp_path / "run", *MACHINE]  # fmt: skip
    found = call_json(capsys, *given)
    assert set(found["baselines"]) == {"majority", "tfidf"}
    assert found["test"]["num_examples"] == 20
    assert found["run"] == str(tmp_path / "run")
    table = call(capsys, *given, "--resume")
    assert "tfidf" in table
    assert "truth" in table


def test_evaluate_scores_classifiers_and_language_models(capsys: pytest.CaptureFixture[str], shared: Path) -> None:
    found = call_json(capsys, "evaluate", shared / "classifier", shared / "test.jsonl", *MACHINE)
    assert found["accuracy"] > 0.9
    assert found["num_examples"] == 20
    found = call_json(capsys, "evaluate", shared / "base", shared / "corpus.txt", *MACHINE)
    assert found["num_documents"] == 120
    assert {"loss", "perplexity", "bits_per_byte"} <= set(found)
    assert "accuracy" in call(capsys, "evaluate", shared / "classifier", shared / "test.jsonl", *MACHINE)
    assert "max_length is 99" in call_wrong(
        capsys, "evaluate", shared / "base", shared / "corpus.txt", "--max-length", 99, *MACHINE
    )


def test_tokenizer_store_and_cache(capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path) -> None:
    corpus = shared / "corpus.txt"
    made = call_json(capsys, "tokenizer", corpus, "--out", tmp_path / "tokenizer.json", "--vocab-size", 300)
    assert made["vocab_size"] == 300
    stored = call_json(
        capsys, "store", corpus, "--tokenizer", tmp_path / "tokenizer.json", "--out", tmp_path / "corpus.store"
    )
    assert stored["num_documents"] == 120
    given = ["--max-steps=1", "--max-length=24", *FLAGS, *MACHINE]
    call(capsys, "pretrain", tmp_path / "corpus.store", "--out", tmp_path / "run", *given)
    assert hs.load(tmp_path / "run").bundle.tokenizer.fingerprint == made["fingerprint"], "a store brings its tokenizer"
    call(capsys, "pretrain", corpus, "--out", tmp_path / "other", *given)
    entries = call_json(capsys, "cache")["entries"]
    assert {entry["kind"] for entry in entries} == {"store", "tokenizer"}
    assert call_json(capsys, "cache", "rm", entries[0]["key"])["freed_bytes"] > 0
    assert len(call_json(capsys, "cache", "ls")["entries"]) == len(entries) - 1
    call(capsys, "cache", "rm", "--all")
    assert call_json(capsys, "cache")["entries"] == []
    assert "--all" in call_wrong(capsys, "cache", "rm")


def test_datasets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    names = {entry["name"] for entry in call_json(capsys, "datasets")["datasets"]}
    assert any("movies" in name for name in names)
    assert any("chitchat" in name for name in names)


def test_a_reader_that_goes_away_is_no_error(shared: Path) -> None:
    line = f"{sys.executable} -m headswap datasets | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == ""


def test_a_lone_dash_is_standard_input(capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path) -> None:
    text = (shared / "corpus.txt").read_bytes()
    for line in (
        ["tokenizer", "-", "--out", str(tmp_path / "tokenizer.json"), "--vocab-size", "300"],
        ["pretrain", "-", "--out", str(tmp_path / "run"), "--max-steps=1", "--max-length=24", *FLAGS, *MACHINE],
    ):
        done = subprocess.run([sys.executable, "-m", "headswap", *line, "--json"], input=text, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        assert json.loads(done.stdout)
    piped = hs.load(tmp_path / "run").bundle.tokenizer.fingerprint
    assert piped == hs.load(shared / "base").bundle.tokenizer.fingerprint, "the same text gives the same tokenizer"


# Flags that would have had no effect


def test_a_dash_is_standard_input_for_predict_too(
    capsys: pytest.CaptureFixture[str], shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = call(capsys, "predict", shared / "classifier", "a good film", "a bad film")
    monkeypatch.setattr(sys, "stdin", io.StringIO("a good film\na bad film\n"))
    assert call(capsys, "predict", shared / "classifier", "-") == expected
    assert "cannot be mixed" in call_wrong(capsys, "predict", shared / "classifier", "-", "a good film")


def test_predict_never_reads_one_file_of_several(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("a good film\n")
    said = call_wrong(capsys, "predict", shared / "classifier", "--file", tmp_path / "*.txt")
    assert "stands for 2 files" in said


@pytest.mark.parametrize("text", ["", "  "])
def test_a_blank_text_gets_no_label(capsys: pytest.CaptureFixture[str], shared: Path, text: str) -> None:
    assert "Text 2 of 2 is blank" in call_wrong(capsys, "predict", shared / "classifier", "a film", text)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("evaluate", "base", "corpus.txt", "--label-column", "x"), "--label-column cannot be used: this bundle is a"),
        (("evaluate", "classifier", "test.jsonl", "--documents", "file"), "--documents cannot be used"),
        (("predict", "classifier", "a film", "--text-column", "x"), "--text-column is for a file with columns"),
        (("predict", "classifier", "--file", "corpus.txt", "--text-column", "x"), "corpus.txt has no columns"),
        (("params", "base", "--num-labels", "3"), "A bundle has its own shape and head"),
        (("params", "base", "--max-length", "3"), "A bundle has its own shape and head"),
        (("evaluate", "classifier", "test.jsonl", "more"), "'more' is too much. See headswap evaluate --help."),
        (("predict",), "The bundle is missing. See headswap predict --help."),
        (("predict", "classifier", "x", "--device", "gpu"), "A GPU is called cuda."),
        (("study", "movies", "--out", "x", "--max-steps=3"), "--pretrain.max-steps or --finetune.max-steps"),
        (("study", "movies", "--out", "x", "--max-minuts", "3"), "Did you mean --max-minutes?"),
        (("generate", "base", "one", "two", "three"), "'two', 'three' are too much. It takes one prompt, in"),
    ],
)  # fmt: skip
def test_what_would_have_no_effect_is_refused(
    capsys: pytest.CaptureFixture[str], shared: Path, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(shared)
    assert words in call_wrong(capsys, *argv)


def test_a_tokenizer_is_replaced_only_when_asked(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    given = ("tokenizer", shared / "corpus.txt", "--out", tmp_path / "tokenizer.json")
    call(capsys, *given, "--vocab-size=270")
    before = (tmp_path / "tokenizer.json").read_bytes()
    assert "exists already" in call_wrong(capsys, *given, "--vocab-size=280")
    assert (tmp_path / "tokenizer.json").read_bytes() == before
    call(capsys, *given, "--vocab-size=280", "--overwrite")
    assert (tmp_path / "tokenizer.json").read_bytes() != before


def test_a_tokenizer_never_replaces_its_corpus(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_bytes((shared / "corpus.txt").read_bytes())
    said = call_wrong(capsys, "tokenizer", corpus, "--out", corpus, "--vocab-size=270", "--overwrite")
    assert "which is the corpus" in said
    assert corpus.read_bytes() == (shared / "corpus.txt").read_bytes()


def test_a_store_is_replaced_only_when_asked(capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path) -> None:
    rest = ("--tokenizer", shared / "base", "--out", tmp_path / "store")
    before = call_json(capsys, "store", shared / "corpus.txt", *rest)["num_documents"]
    (tmp_path / "less.txt").write_text("a good film\n")
    said = call_wrong(capsys, "store", tmp_path / "less.txt", *rest)
    assert "exists already. Choose another name, or replace it with --overwrite." in said
    assert TokenStore.open(tmp_path / "store").num_documents == before
    assert call_json(capsys, "store", tmp_path / "less.txt", *rest, "--overwrite")["num_documents"] == 1
    assert TokenStore.open(tmp_path / "store").num_documents == 1
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("of my own")
    said = call_wrong(capsys, "store", tmp_path / "less.txt", *rest[:3], tmp_path / "mine", "--overwrite")
    assert "would remove 'notes.txt' from" in said
    assert (tmp_path / "mine" / "notes.txt").exists()


def test_vectors_are_replaced_only_when_asked(capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path) -> None:
    given = ("embed", shared / "base", "--out", tmp_path / "vectors.npy")
    assert call_json(capsys, *given, "a good film")["num_texts"] == 1
    assert "or replace it with --overwrite." in call_wrong(capsys, *given, "a film", "two films")
    assert call_json(capsys, *given, "a film", "two films", "--overwrite")["num_texts"] == 2
    assert "--overwrite is for a file" in call_wrong(capsys, *given[:2], "a film", "--overwrite")
    (tmp_path / "folder.npy").mkdir()
    said = call_wrong(capsys, *given[:3], tmp_path / "folder.npy", "a film", "--overwrite")
    assert "folder.npy is a folder" in said


def test_the_chosen_epoch_is_said_where_one_is_chosen(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    given = ["finetune", "--base", shared / "base", "--train", shared / "train.jsonl", "--num-train-epochs=2", *MACHINE]
    chosen_on = ("--validation", shared / "test.jsonl")
    assert run([str(part) for part in (*given, *chosen_on, "--out", tmp_path / "a")]) == 0
    best = hs.load(tmp_path / "a").result["best_epoch"]
    said = capsys.readouterr().err
    assert f"Best epoch by validation accuracy: {best:g} of 2. Its weights are kept." in said
    assert run([str(part) for part in (*given, "--out", tmp_path / "b")]) == 0, "too few labels to choose on"
    said = capsys.readouterr().err
    assert "the last weights are kept" in said
    assert "Best epoch" not in said


def test_settings_of_reading_are_refused_where_nothing_is_read_by_them(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    call(capsys, "store", shared / "corpus.txt", "--tokenizer", shared / "base", "--out", tmp_path / "store")
    rest = ("--out", tmp_path / "run", "--max-steps=1", *FLAGS, *MACHINE)
    said = call_wrong(capsys, "pretrain", tmp_path / "store", "--documents", "file", *rest)
    assert "documents cannot be set" in said
    said = call_wrong(capsys, "pretrain", shared / "corpus.txt", "--text-column", "body", *rest)
    assert "text_column is 'body', but no file of the corpus has columns" in said
    assert not (tmp_path / "run").exists()


def test_two_limits_exclude_each_other(capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path) -> None:
    limits = ("--max-steps=700", "--max-minutes=0.03")
    said = call_wrong(capsys, "pretrain", shared / "corpus.txt", "--out", tmp_path / "run", *limits, *FLAGS, *MACHINE)
    assert "max_steps and max_minutes exclude each other" in said


def test_a_help_page_whose_reader_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m headswap pretrain --help | true; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", command]).returncode == 0


def test_ctrl_c_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, shared: Path) -> None:
    def interrupt(*_args: object, **_values: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("headswap.bundle.bundle.Bundle.load", interrupt)
    monkeypatch.setattr("sys.argv", ["headswap", "predict", str(shared / "classifier"), "a film"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 130
    assert capsys.readouterr() == ("", "headswap: Interrupted.\n")


def test_no_memory_is_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, shared: Path
) -> None:
    import torch

    import headswap.inference.predict as module

    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(module, "outputs_of", full)
    assert "Out of memory" in call_wrong(capsys, "predict", shared / "classifier", "a fine film", code=1)


def test_a_column_of_the_labelled_sets_does_not_stop_the_doctor_at_a_corpus_without_columns(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = "\n".join(f"{text.replace(',', ' ')},{label}" for text, label in sentences(60))
    (tmp_path / "train.csv").write_text(f"sentence,topic\n{rows}\n", encoding="utf-8")
    (tmp_path / "corpus.txt").write_text("\n".join(text for text, _ in sentences(80, seed=1)), encoding="utf-8")
    named = ("--train", tmp_path / "train.csv", "--text-column", "sentence", "--label-column", "topic")
    answer = call(capsys, "doctor", *named, "--corpus", tmp_path / "corpus.txt")
    assert "corpus" in answer
    assert "Leave it out" in call_wrong(
        capsys, "doctor", "--corpus", tmp_path / "corpus.txt", "--text-column", "sentence"
    )
