"""Packing a base: bf16 weights whose loss is on the card, a record without texts, a reference loss."""

import json
import shutil
from pathlib import Path

import pytest
from safetensors import safe_open

import headswap as hs
from boxed import Box
from headswap.bundle.bundle import Bundle
from headswap.bundle.check import check_bundle
from headswap.core.errors import HeadswapError, InputError, RunError, SettingError
from headswap.core.files import read_json, sha256_of_file, write_json
from headswap.core.manifest import manifest_problems
from headswap.core.settings import read_toml
from headswap.pretraining.pack import REFERENCE_TOLERANCE, Packed, pack, reference_loss
from tiny import ONE_THREAD, TINY_LAYERS, sentences, write_labelled

pytestmark = pytest.mark.usefixtures("one_thread")
LINES = ("the film was warm .", "the ending was cold and the music was grey .")
ABOUT = {"name": "letters", "licence": "MIT", "limits": "a grammar of forty words"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, and one finished run per kind of objective."""
    folder = tmp_path_factory.mktemp("pack")
    (folder / "corpus.txt").write_text("".join(f"{text}\n" for text, _ in sentences(120)), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
        for objective in ("causal", "masked"):
            hs.pretrain(
                folder / "corpus.txt", out=folder / objective, objective=objective, max_steps=6, max_length=24,
                vocab_size=300, held_out_fraction=0.1, **TINY_LAYERS, **ONE_THREAD,
            )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def packed(folder: Path) -> Packed:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
        return pack(folder / "causal", folder / "package", about=ABOUT, sentences=LINES)


def copied(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder / "causal", tmp_path / "run"))


def test_the_weights_are_bf16_and_the_bundle_is_undamaged(packed: Packed) -> None:
    with safe_open(packed.out / "bundle" / "model.safetensors", framework="pt") as file:
        assert {file.get_slice(name).get_dtype() for name in file.keys()} == {"BF16"}  # noqa: SIM118 - no mapping
    assert all(check.is_sound for check in check_bundle(packed.out / "bundle"))
    assert Bundle.load(packed.out / "bundle").verify() == [], "golden outputs are those of the rounded weights"


def test_the_card_describes_the_packed_base(folder: Path, packed: Packed) -> None:
    card, result = Bundle.load(packed.out / "bundle").card, read_json(folder / "causal" / "result.json")
    assert card["tokens read"] == result["tokens"]
    assert card["held-out loss"] == pytest.approx(packed.loss, abs=1e-4)
    assert packed.loss == pytest.approx(result["loss"], abs=0.01)
    assert packed.loss != packed.loss_before_rounding, "the loss is that of the rounded weights"
    assert card["held-out bits per byte"] == pytest.approx(result["bits_per_byte"], abs=0.01)
    assert card["licence"] == "MIT"
    text = (packed.out / "bundle" / "README.md").read_text(encoding="utf-8")
    for word in ("sha256 of the token ids", "seconds", "device", "limits: a grammar of forty words"):
        assert word in text


def test_the_record_has_the_files_of_the_run_without_sampled_texts(folder: Path, packed: Packed) -> None:
    record = packed.out / "record"
    assert manifest_problems(record) == []
    for name in ("result.json", "data.json"):
        assert (record / name).read_bytes() == (folder / "causal" / name).read_bytes()
    recipe, before = (read_toml(place / "recipe.toml") for place in (record, folder / "causal"))
    assert recipe == before | {"corpus": before["corpus"] | {"corpus": ["corpus.txt"]}}, "files by their names"
    lines = [json.loads(line) for line in (record / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [line["step"] for line in hs.Run(folder / "causal").metrics()]
    assert all("sample" not in line for line in lines)
    assert "command" not in read_json(record / "environment.json")


def test_the_packed_weights_have_the_recorded_loss_on_the_reference(packed: Packed) -> None:
    recorded = read_json(packed.out / "record" / "reference.json")
    bundle = Bundle.load(packed.out / "bundle")
    assert reference_loss(bundle, packed.out / "record")["loss"] == pytest.approx(recorded["loss"], abs=1e-6)
    for tensor in bundle.model.parameters():
        tensor.data *= 1.05
    moved = reference_loss(bundle, packed.out / "record")["loss"]
    assert abs(moved - recorded["loss"]) > REFERENCE_TOLERANCE, "other weights have another loss"


def test_a_masked_base_is_packed_without_bits_per_byte(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
    found = pack(folder / "masked", tmp_path / "package", about=ABOUT, sentences=LINES)
    assert "held-out bits per byte" not in Bundle.load(found.out / "bundle").card
    assert "bits_per_byte" not in found.reference


def test_a_packed_base_can_be_installed_and_fine_tuned(
    box: Box, packed: Packed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from headswap.cli.exit_codes import run

    box.offer("letters", str(packed.out / "bundle"))
    assert run(["bases"]) == 0
    assert "bits per byte\tMIT\ta grammar of forty words" in capsys.readouterr().out
    train = write_labelled(tmp_path / "train.jsonl", 20)
    tuned = hs.finetune("box:letters", train=train, out=tmp_path / "run", num_train_epochs=1, **ONE_THREAD)
    assert tuned.model.predict(["the film was warm ."])[0] in ("pos", "neg")


def test_a_run_whose_corpus_changed_is_not_packed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the loss on the held-out documents is still the same."""
    monkeypatch.setattr("headswap.pretraining.pack.MOST_DIFFERENT", 100.0)
    run = copied(folder, tmp_path)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text((folder / "corpus.txt").read_text().replace("film", "story"))
    recipe = (run / "recipe.toml").read_text()
    given = str(folder / "corpus.txt")
    assert given in recipe
    (run / "recipe.toml").write_text(recipe.replace(given, str(corpus)))
    with pytest.raises(InputError, match=r"corpus\.txt' changed since .* read it"):
        pack(run, tmp_path / "package", about=ABOUT, sentences=LINES)


@pytest.mark.parametrize(
    ("damage", "error", "words"),
    [
        (lambda run: (run / "result.json").unlink(), InputError, "has not finished"),
        (lambda run: (run / "recipe.toml").unlink(), InputError, r"has no recipe\.toml"),
        (
            lambda run: (run / "recipe.toml").write_text('verb = "finetune"\n'),
            SettingError,
            "is a run of headswap finetune",
        ),
        (lambda run: (run / "bundle" / "README.md").write_text("mine"), InputError, r"is damaged: .*README\.md"),
        (
            lambda run: write_json(run / "result.json", read_json(run / "result.json") | {"loss": 1.0}),
            RunError,
            "not from the same run",
        ),
    ],
)
def test_an_unfinished_or_damaged_run_is_not_packed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage, error: type[HeadswapError], words: str
) -> None:
    monkeypatch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
    run = copied(folder, tmp_path)
    damage(run)
    with pytest.raises(error, match=words):
        pack(run, tmp_path / "package", about=ABOUT, sentences=LINES)
    assert not (tmp_path / "package").exists()


def test_a_base_that_is_too_large_or_loses_precision_is_an_error(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
    with pytest.raises(RunError, match=r"but only 0\.0 MB are allowed"):
        pack(folder / "causal", tmp_path / "package", about=ABOUT, sentences=LINES, most_bytes=1_000)
    monkeypatch.setattr("headswap.pretraining.pack.MOST_LOST", 0.0)
    with pytest.raises(RunError, match="Rounding to bf16 changes the held-out loss"):
        pack(folder / "causal", tmp_path / "package", about=ABOUT, sentences=LINES)
    assert not (tmp_path / "package").exists()


def test_packing_replaces_neither_its_run_nor_foreign_files(
    folder: Path, packed: Packed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
    run = copied(folder, tmp_path)
    before = sha256_of_file(run / "bundle" / "model.safetensors")
    (tmp_path / "link").symlink_to(run, target_is_directory=True)
    for out in (run, tmp_path / "link"):
        with pytest.raises(SettingError, match="the input"):
            pack(run, out, about=ABOUT, sentences=LINES)
    assert sha256_of_file(run / "bundle" / "model.safetensors") == before
    package = Path(shutil.copytree(packed.out, tmp_path / "package"))
    for part in ("bundle", "record"):
        (package / part / "notes.txt").write_text("mine")
        with pytest.raises(SettingError, match=rf"'notes\.txt' from {package / part}"):
            pack(run, package, about=ABOUT, sentences=LINES)
        (package / part / "notes.txt").unlink()
    assert pack(run, package, about=ABOUT, sentences=LINES).out == package, "its own files are replaced"


def test_a_reference_sentence_of_several_lines_is_an_error(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
    with pytest.raises(InputError, match="cannot be a reference sentence"):
        pack(folder / "causal", tmp_path / "package", about=ABOUT, sentences=("a\nb",))
