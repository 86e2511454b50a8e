"""Checks of --out, made before anything is removed."""

from pathlib import Path

import pytest

from headswap.core.errors import SettingError
from headswap.core.outputs import check_apart, check_file, check_folder, check_writable
from headswap.core.ownership import OwnFiles

OWN_FILES = OwnFiles(files=("result.json",))


def folder(out: Path, *, overwrite: bool = False, reads: tuple[Path, ...] = ()) -> None:
    check_folder(out, OWN_FILES, overwrite=overwrite, reads=reads)


def file(out: Path, *, overwrite: bool = False, reads: tuple[Path, ...] = (), is_ours: bool = True) -> None:
    check_file(
        out, what="tokenizer", is_ours=lambda path: is_ours, overwrite=overwrite, reads=reads, example="tokenizer.json"
    )


def test_a_new_name_is_accepted(tmp_path: Path) -> None:
    folder(tmp_path / "a" / "b")
    file(tmp_path / "a" / "b.json")
    assert list(tmp_path.iterdir()) == [], "a check creates nothing"


def test_an_existing_output_needs_overwrite(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "one.json").touch()
    for check, name in ((folder, "run"), (file, "one.json")):
        with pytest.raises(SettingError, match=f"{name} already exists.*--overwrite"):
            check(tmp_path / name)
        check(tmp_path / name, overwrite=True)


def test_files_that_headswap_did_not_write_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "result.json").touch()
    folder(tmp_path / "run", overwrite=True)
    (tmp_path / "run" / "thesis.tex").touch()
    with pytest.raises(SettingError, match=r"would remove 'thesis\.tex'"):
        folder(tmp_path / "run", overwrite=True)
    (tmp_path / "notes.json").touch()
    with pytest.raises(SettingError, match="not a valid tokenizer"):
        file(tmp_path / "notes.json", overwrite=True, is_ours=False)


def test_an_input_is_no_output(tmp_path: Path) -> None:
    inner = tmp_path / "data" / "inner"
    inner.mkdir(parents=True)
    (inner / "train.csv").touch()
    for out, relation in ((inner, "contains"), (tmp_path / "data", "contains"), (inner / "run", "is inside")):
        reads = (inner,) if relation == "is inside" else (inner / "train.csv",)
        with pytest.raises(SettingError, match=f"{relation} the input"):
            check_apart(out, reads, may_be_inside=False)
    with pytest.raises(SettingError, match="is the input"):
        check_apart(inner, (inner,))
    check_apart(inner / "run", (inner,))
    check_apart(inner, (tmp_path / "missing", "movies"))
    with pytest.raises(SettingError, match="is the input"):
        file(inner / "train.csv", overwrite=True, reads=(inner / "train.csv",))


def test_links_and_the_wrong_kind_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    with pytest.raises(SettingError, match="is a symbolic link to"):
        folder(tmp_path / "link", overwrite=True)
    with pytest.raises(SettingError, match=r"is a file\. Give a folder"):
        folder(tmp_path / "file", overwrite=True)
    with pytest.raises(SettingError, match=r"is a folder\. Give a file name.*tokenizer\.json"):
        file(tmp_path / "folder", overwrite=True)
    with pytest.raises(SettingError, match="not the name of a folder"):
        folder(Path(".."))


def test_a_place_below_a_file_or_in_proc_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file" / "run", Path("/proc/run")):
        with pytest.raises(SettingError, match="cannot be written to"):
            check_writable(out)
