"""Installed bases: names, checksums, the list, and errors of broken packages."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from boxed import Box, tiny_base
from headswap.cli.exit_codes import run
from headswap.core.errors import InputError
from headswap.core.installed_bases import base_folder, checked_base, is_boxed, list_bases
from headswap.tokens.tokenizer import Tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_name_maps_to_the_folder_of_its_package(box: Box, tokenizer: Tokenizer, tmp_path: Path) -> None:
    folder = tiny_base(tmp_path / "made", tokenizer)
    box.offer("letters", str(folder))
    assert base_folder("box:letters") == checked_base("box:letters") == folder


def test_an_entry_point_may_be_a_function(box: Box, tokenizer: Tokenizer, tmp_path: Path) -> None:
    folder = tiny_base(tmp_path / "made", tokenizer)
    box.offer("letters", None, code=f"def BUNDLE():\n    import pathlib\n    return pathlib.Path({str(folder)!r})\n")
    assert base_folder("box:letters") == folder


def test_a_missing_base_is_reported_with_the_installed_ones_and_how_to_get_it(box: Box, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"base 'letters' is not installed\. No base is installed\. .*headswap-base-letters"
    ):
        base_folder("box:letters")
    box.offer("letters", str(tmp_path))
    with pytest.raises(InputError, match=r"Installed bases: 'letters'\. Did you mean 'letters'\?"):
        base_folder("box:leters")
    for own in ("reviews-en-2", "reviews-en"):
        with pytest.raises(InputError, match=rf"pip install \./bases/{own}$"):
            base_folder(f"box:{own}")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise RuntimeError('no disk')", "raised RuntimeError: no disk"),
        ("import a_module_that_is_not_there", "raised ModuleNotFoundError"),
        ("raise SystemExit(3)", "raised SystemExit: 3"),
        ("OTHER = 1", "raised AttributeError"),
        ("BUNDLE = 7", "returns 7, not an absolute path"),
        ("BUNDLE = 'here'", "returns 'here', not an absolute path"),
        ("BUNDLE = '/not/anywhere'", r"has no weights: /not/anywhere does not exist"),
        (
            "from headswap.core.errors import InputError\ndef BUNDLE():\n    raise InputError('Fetch it first.')",
            r"cannot be used\. Fetch it first\.",
        ),
    ],
)
def test_a_broken_package_is_reported_with_its_name(box: Box, code: str, words: str) -> None:
    box.offer("broken", None, code=code)
    with pytest.raises(InputError, match=words) as problem:
        base_folder("box:broken")
    assert "The base 'broken' of headswap-base-broken" in str(problem.value)
    assert str(problem.value).endswith((".", "?"))
    assert [entry.problem for entry in list_bases()] == [str(problem.value)], "it is listed with its problem"


def test_a_folder_without_a_bundle_is_reported(box: Box, tmp_path: Path) -> None:
    box.offer("empty", str(tmp_path))
    with pytest.raises(InputError, match=r"is not a bundle \(it has no config\.json\)"):
        base_folder("box:empty")


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "README.md"])
def test_a_changed_file_is_refused_by_its_checksum(box: Box, tokenizer: Tokenizer, tmp_path: Path, name: str) -> None:
    folder = tiny_base(tmp_path / "made", tokenizer)
    box.offer("letters", str(folder))
    content = bytearray((folder / name).read_bytes())
    content[-1] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name} is damaged: its SHA-256.*Install its package again"):
        checked_base("box:letters")


def test_a_base_without_checksums_is_refused(box: Box, tokenizer: Tokenizer, tmp_path: Path) -> None:
    folder = tiny_base(tmp_path / "made", tokenizer)
    (folder / "manifest.json").unlink()
    box.offer("letters", str(folder))
    with pytest.raises(InputError, match=r"has no manifest\.json"):
        checked_base("box:letters")


def test_two_packages_with_the_same_base_are_an_error(box: Box, tokenizer: Tokenizer, tmp_path: Path) -> None:
    folder = tiny_base(tmp_path / "made", tokenizer)
    box.offer("letters", str(folder), package="one")
    box.offer("letters", str(folder), package="two")
    with pytest.raises(InputError, match="Several packages provide a base 'letters': 'one', 'two'"):
        base_folder("box:letters")


def test_a_folder_of_the_same_name_takes_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_boxed("box:letters")
    (tmp_path / "box:letters").mkdir()
    assert not is_boxed("box:letters")


# headswap bases


def test_the_list_describes_each_base(
    box: Box, tokenizer: Tokenizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    box.offer("letters", str(tiny_base(tmp_path / "made", tokenizer)))
    box.offer("absent", "/not/anywhere")
    assert run(["bases", "--json"]) == 0
    absent, letters = json.loads(capsys.readouterr().out)["bases"]
    assert absent["name"] == "absent"
    assert "has no weights" in absent["problem"]
    assert (letters["name"], letters["package"], letters["version"]) == ("letters", "headswap-base-letters", "1.2")
    assert (letters["objective"], letters["num_hidden_layers"], letters["hidden_size"]) == ("causal", 2, 32)
    assert (letters["tokens"], letters["held_out_loss"], letters["problem"]) == (2_000_000, 5.5, None)
    assert run(["bases"]) == 0
    table = capsys.readouterr().out
    assert "box:letters\theadswap-base-letters 1.2\tcausal\t2 layers of 32" in table
    assert "loss 5.500\tMIT\tknows nothing" in table
    assert "cannot be used: The base 'absent'" in table


def test_an_empty_list_is_reported(box: Box, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bases"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "No base is installed" in err
    assert run(["bases", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"bases": []}


def test_listing_bases_does_not_import_torch() -> None:
    code = "import sys\nfrom headswap.cli.exit_codes import run\nrun(['bases'])\nassert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
