"""Files that headswap did not write are never removed or replaced; input files are never replaced."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import headswap as hs
from headswap.bundle.bundle import Bundle
from headswap.bundle.task_state import TaskState
from headswap.cli.exit_codes import run
from headswap.core.errors import SettingError
from headswap.data.config import ReadSettings
from headswap.data.content_hash import cache_folder
from headswap.data.records import Document
from headswap.model.shape import LoraShape
from headswap.model.text_model import build_model
from headswap.tokens.cache import cached_store, cached_tokenizer
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.store import TokenStore, build_store
from headswap.tokens.tokenizer import Tokenizer
from tiny import sentences, tiny_model_shape

pytestmark = pytest.mark.usefixtures("one_thread")
TINY_RUN = {
    "max_steps": 1, "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16,
    "vocab_size": 280, "max_length": 16, "device": "cpu", "threads": 1,
}  # fmt: skip


def refused(capsys: pytest.CaptureFixture[str], *argv: object) -> str:
    """The message of a command that is refused."""
    code = run([str(part) for part in argv])
    said = capsys.readouterr().err
    assert code == 2, said
    assert "Traceback" not in said
    return said


def done(capsys: pytest.CaptureFixture[str], *argv: object) -> str:
    """Standard output of a command that works."""
    code = run([str(part) for part in argv])
    out, err = capsys.readouterr()
    assert code == 0, err
    return out


def contents(folder: Path) -> dict[str, bytes | str]:
    """Every file below a folder with its bytes, every link with its target."""
    found = sorted(path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    return {
        str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_bytes() for path in found
    }


def save_bundle(tokenizer: Tokenizer, folder: Path, *, lora: bool) -> Path:
    shape = tiny_model_shape("small", head="classify", vocab_size=tokenizer.vocab_size)
    shape = shape.changed(lora=LoraShape(rank=2, alpha=4.0)) if lora else shape
    state = TaskState(task="classify", max_length=30)
    Bundle(build_model(shape, seed=3), tokenizer, ("a", "b", "c"), "causal", {}, task=state).save(folder)
    return folder


@pytest.fixture
def adapted(tokenizer: Tokenizer, tmp_path: Path) -> Path:
    """The bundle of a model with adapters, inside of a run folder."""
    return save_bundle(tokenizer, tmp_path / "work" / "run" / "bundle", lora=True)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    file = tmp_path / "texts.txt"
    file.write_text("".join(f"{text}\n" for text, _ in sentences(80)), encoding="utf-8")
    return file


def save_store(tokenizer: Tokenizer, folder: Path) -> Path:
    build_store([Document("a fine film", "tests", 1)], tokenizer, folder)
    return folder


# A folder with foreign files


def add_file(folder: Path) -> str:
    (folder / "thesis.tex").write_text("mine")
    return "thesis.tex"


def add_hidden_file(folder: Path) -> str:
    (folder / ".notes").write_text("mine")
    return ".notes"


def add_folder(folder: Path) -> str:
    (folder / "pictures").mkdir()
    (folder / "pictures" / "cat.png").write_text("mine")
    return "pictures"


def add_link(folder: Path) -> str:
    (folder.parent / "elsewhere").mkdir(exist_ok=True)
    (folder / "link").symlink_to(folder.parent / "elsewhere", target_is_directory=True)
    return "link"


def add_imitation(folder: Path) -> str:
    (folder / ".tmp-mine").write_text("mine")
    return ".tmp-mine"


FOREIGN = pytest.mark.parametrize("add", [add_file, add_hidden_file, add_folder, add_link, add_imitation])


@FOREIGN
def test_merge_names_foreign_files_and_removes_nothing(
    capsys: pytest.CaptureFixture[str], adapted: Path, tokenizer: Tokenizer, tmp_path: Path, add: Callable
) -> None:
    out = save_bundle(tokenizer, tmp_path / "plain", lora=False)
    name, before = add(out), contents(tmp_path)
    assert f"'{name}'" in refused(capsys, "merge", adapted, "--out", out, "--overwrite")
    assert contents(tmp_path) == before


@FOREIGN
def test_store_names_foreign_files_and_removes_nothing(
    capsys: pytest.CaptureFixture[str], adapted: Path, tokenizer: Tokenizer, texts: Path, tmp_path: Path, add: Callable
) -> None:
    out = save_store(tokenizer, tmp_path / "store")
    name, before = add(out), contents(tmp_path)
    assert f"'{name}'" in refused(capsys, "store", texts, "--tokenizer", adapted, "--out", out, "--overwrite")
    assert contents(tmp_path) == before


def test_files_of_other_libraries_with_the_same_names_are_foreign(
    capsys: pytest.CaptureFixture[str], adapted: Path, texts: Path, tmp_path: Path
) -> None:
    """A model of another library has a config.json and a model.safetensors too."""
    other = tmp_path / "bert"
    other.mkdir()
    for name in ("config.json", "model.safetensors", "store.json", "ids.bin"):
        (other / name).write_text('{"model_type": "bert"}')
    before = contents(other)
    said = refused(capsys, "merge", adapted, "--out", other, "--overwrite")
    assert "'config.json'" in said
    assert "'model.safetensors'" in said
    assert "'store.json'" in refused(capsys, "store", texts, "--tokenizer", adapted, "--out", other, "--overwrite")
    assert contents(other) == before


@pytest.mark.parametrize("name", ["bundle/notes.txt", "checkpoints/epoch-1.pt", "checkpoints/step-00000001/notes.txt"])
def test_pretrain_names_foreign_files_below_its_own_folders(texts: Path, tmp_path: Path, name: str) -> None:
    made = hs.pretrain(texts, out=tmp_path / "run", **TINY_RUN)
    (made.path / name).parent.mkdir(parents=True, exist_ok=True)
    (made.path / name).write_text("mine")
    before = contents(made.path)
    for how in ({"overwrite": True}, {"resume": True}):
        with pytest.raises(SettingError, match=f"'{name}'"):
            hs.pretrain(texts, out=made.path, **TINY_RUN, **how)
    assert contents(made.path) == before


def test_pretrain_does_not_treat_user_files_as_a_run(texts: Path, tmp_path: Path) -> None:
    """`data.json`, `result.json` and a recipe that a user wrote have the names of a run's files."""
    for name in ("data.json", "recipe.toml"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / name).write_text("# mine\n")
        with pytest.raises(SettingError, match=f"'{name}'"):
            hs.pretrain(texts, out=folder, overwrite=True, **TINY_RUN)
        assert contents(folder) == {name: b"# mine\n"}


def test_resume_keeps_hidden_files_of_the_user(texts: Path, tmp_path: Path) -> None:
    made = hs.pretrain(texts, out=tmp_path / "run", **TINY_RUN)
    (made.path / "result.json").unlink()
    (made.path / ".tmp-mine").mkdir()
    (made.path / ".tmp-mine" / "notes.txt").write_text("mine")
    hs.pretrain(texts, out=made.path, resume=True, **TINY_RUN)
    assert (made.path / ".tmp-mine" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("verb", ["merge", "store"])
def test_user_folder_with_the_name_of_a_backup_is_kept(
    capsys: pytest.CaptureFixture[str], adapted: Path, tokenizer: Tokenizer, texts: Path, tmp_path: Path, verb: str
) -> None:
    """Whether the target exists or not."""
    given = ["merge", adapted] if verb == "merge" else ["store", texts, "--tokenizer", adapted]
    mine = tmp_path / ".old-out"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    for more in ((), ("--overwrite",)):
        done(capsys, *given, "--out", tmp_path / "out", *more)
        assert contents(mine) == {"notes.txt": b"mine"}
        assert "notes.txt" not in contents(tmp_path / "out")


# An output that is an input


@pytest.mark.parametrize(
    "out",
    ["run/bundle", "run/../run/bundle", "run", ".", "run/bundle/merged", "link", "linked/run/bundle"],
)
def test_merge_never_replaces_what_it_reads(
    capsys: pytest.CaptureFixture[str], adapted: Path, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    """The bundle itself, a folder above or inside of it, other spellings, links to it or through one."""
    work = adapted.parent.parent
    monkeypatch.chdir(work)
    (work / "link").symlink_to("run/bundle", target_is_directory=True)
    (work / "linked").symlink_to(work, target_is_directory=True)
    before = contents(adapted)
    for given in ("run", "run/bundle", "link"):
        refused(capsys, "merge", given, "--out", out, "--overwrite")
        assert contents(adapted) == before
    assert (work / "link").is_symlink()


def test_merge_into_its_input_is_reported(capsys: pytest.CaptureFixture[str], adapted: Path) -> None:
    said = refused(capsys, "merge", adapted, "--out", adapted, "--overwrite")
    assert f"--out {adapted} is the input {adapted}. Choose another folder." in said
    for given in (adapted, adapted.parent):
        assert f"is inside the input {given}" in refused(capsys, "merge", given, "--out", given / "merged")
        assert not (given / "merged").exists()


def test_a_tokenizer_never_replaces_its_corpus(
    capsys: pytest.CaptureFixture[str], texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.txt").symlink_to("texts.txt")
    before = contents(tmp_path)
    for corpus in ("texts.txt", "*.txt", "link.txt"):
        for out in ("texts.txt", texts, "link.txt"):
            refused(capsys, "tokenizer", corpus, "--out", out, "--overwrite", "--vocab-size=280")
    assert contents(tmp_path) == before


def test_store_never_replaces_what_it_reads(
    capsys: pytest.CaptureFixture[str], texts: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    out = save_store(tokenizer, tmp_path / "store")
    before = contents(out)
    said = refused(capsys, "store", texts, "--tokenizer", out / "tokenizer.json", "--out", out, "--overwrite")
    assert "the input" in said
    assert contents(out) == before


# An output file


def test_file_that_is_no_tokenizer_is_not_replaced(
    capsys: pytest.CaptureFixture[str], texts: Path, tmp_path: Path
) -> None:
    for content in ("my notes", '{"model": {}}', "[]"):
        (tmp_path / "notes.json").write_text(content)
        said = refused(capsys, "tokenizer", texts, "--out", tmp_path / "notes.json", "--overwrite", "--vocab-size=280")
        assert "which headswap did not write" in said
        assert (tmp_path / "notes.json").read_text() == content


def test_file_without_vectors_is_not_replaced(
    capsys: pytest.CaptureFixture[str], adapted: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a.npy"
    np.save(out, np.arange(5))
    for content in (out.read_bytes(), b"notes", b""):
        out.write_bytes(content)
        assert "not a valid array of vectors" in refused(
            capsys, "embed", adapted, "a film", "--out", out, "--overwrite"
        )
        assert out.read_bytes() == content


@pytest.mark.parametrize("is_dangling", [True, False])
def test_an_output_that_is_a_link_is_refused(
    capsys: pytest.CaptureFixture[str], adapted: Path, texts: Path, tmp_path: Path, is_dangling: bool
) -> None:
    link = tmp_path / "link.npy"
    link.symlink_to(tmp_path / "target")
    commands = [
        ["tokenizer", texts, "--vocab-size=280"],
        ["embed", adapted, "a film"],
        ["store", texts, "--tokenizer", adapted],
        ["merge", adapted],
    ]
    if not is_dangling:
        (tmp_path / "target").write_text("mine")
    for command in commands:
        for more in ((), ("--overwrite",)):
            said = refused(capsys, *command, "--out", link, *more)
            assert f"is a symbolic link to {tmp_path / 'target'}" in said
    assert link.is_symlink()
    assert (tmp_path / "target").exists() is not is_dangling


def test_pretrain_into_a_dangling_link_is_refused(texts: Path, tmp_path: Path) -> None:
    (tmp_path / "run").symlink_to(tmp_path / "nothing")
    with pytest.raises(SettingError, match="cannot be written to"):
        hs.pretrain(texts, out=tmp_path / "run", **TINY_RUN)


# The cache


def test_the_cache_is_cleared_of_what_headswap_wrote_and_the_rest_is_reported(
    capsys: pytest.CaptureFixture[str], texts: Path, tmp_path: Path
) -> None:
    made = cached_tokenizer([str(texts)], ReadSettings(), TokenizerSettings(vocab_size=280))
    store = cached_store([str(texts)], ReadSettings(), made)
    assert store.folder is not None
    root, outside = cache_folder(), tmp_path / "outside"
    outside.mkdir()
    (outside / "data.txt").write_text("mine")
    mine = {
        "thesis.tex": root / "thesis.tex",
        "stores/my corpus": root / "stores" / "my corpus" / "a.txt",
        f"stores/{store.folder.name}/notes.txt": store.folder / "notes.txt",
        "tokenizers/.hidden": root / "tokenizers" / ".hidden",
        "stdin/mail.txt": root / "stdin" / "mail.txt",
        "baselines/scores.json": root / "baselines" / "scores.json",
    }
    for file in mine.values():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine")
        os.utime(file, (1_000_000_000, 1_000_000_000))
    link = root / "stores" / "0123456789abcdef"
    link.symlink_to(outside, target_is_directory=True)
    found = json.loads(done(capsys, "cache", "rm", "--all", "--json"))
    left = contents(root)
    assert left.pop("stores/0123456789abcdef") == str(outside)
    assert left == {str(file.relative_to(root)): b"mine" for file in mine.values()}
    assert contents(outside) == {"data.txt": b"mine"}
    assert found["freed_bytes"] > 0
    assert set(found["foreign"]) == {*mine, "stores/0123456789abcdef"}
    assert run(["cache", "rm", "--all"]) == 0
    assert "which headswap did not write" in capsys.readouterr().err


def test_one_entry_is_removed_without_a_users_file_in_it(capsys: pytest.CaptureFixture[str], texts: Path) -> None:
    made = cached_tokenizer([str(texts)], ReadSettings(), TokenizerSettings(vocab_size=280))
    store = cached_store([str(texts)], ReadSettings(), made)
    assert store.folder is not None
    (store.folder / "notes.txt").write_text("mine")
    found = json.loads(done(capsys, "cache", "rm", store.folder.name, "--json"))
    assert found["foreign"] == [f"stores/{store.folder.name}/notes.txt"]
    assert contents(store.folder) == {"notes.txt": b"mine"}


def test_a_damaged_entry_with_a_users_file_is_not_removed(texts: Path) -> None:
    made = cached_tokenizer([str(texts)], ReadSettings(), TokenizerSettings(vocab_size=280))
    store = cached_store([str(texts)], ReadSettings(), made)
    assert store.folder is not None
    (store.folder / "ids.bin").write_bytes(b"")
    (store.folder / "notes.txt").write_text("mine")
    with pytest.raises(SettingError, match="files that headswap did not write"):
        cached_store([str(texts)], ReadSettings(), made)
    assert (store.folder / "notes.txt").read_text() == "mine"


# In Python


def test_a_bundle_and_a_store_are_not_saved_over_foreign_files(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    for save in (save_store, lambda tokenizer, folder: save_bundle(tokenizer, folder, lora=False)):
        with pytest.raises(SettingError, match=r"would remove 'notes\.txt' from"):
            save(tokenizer, tmp_path / "mine")
    assert contents(tmp_path / "mine") == {"notes.txt": b"mine"}
    assert TokenStore.open(save_store(tokenizer, save_store(tokenizer, tmp_path / "store"))).num_documents == 1


def test_a_file_that_appears_while_a_store_is_built_is_not_removed(tokenizer: Tokenizer, tmp_path: Path) -> None:
    out = save_store(tokenizer, tmp_path / "store")

    def documents():
        (out / "notes.txt").write_text("mine")
        yield Document("a fine film", "tests", 1)

    before = contents(out) | {"notes.txt": b"mine"}
    with pytest.raises(SettingError, match=r"notes\.txt"):
        build_store(documents(), tokenizer, out)
    assert contents(out) == before
