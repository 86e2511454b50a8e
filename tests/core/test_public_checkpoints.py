"""Public checkpoints are found in a folder or in the cache of the Hub, and the network is used only on request."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from headswap.core.errors import InputError, MissingExtraError
from headswap.core.public_checkpoints import checkpoint_folder, hub_cache, is_checkpoint


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the Hub."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    return tmp_path / "hf" / "hub"


def make_snapshot(cache: Path, name: str, commit: str, branch: str = "main") -> Path:
    folder = cache / f"models--{name.replace('/', '--')}"
    (folder / "snapshots" / commit).mkdir(parents=True)
    (folder / "snapshots" / commit / "config.json").write_text("{}", encoding="utf-8")
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "refs" / branch).write_text(commit, encoding="utf-8")
    return folder / "snapshots" / commit


def test_a_folder_is_used_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(InputError, match=r"no config\.json"):
        checkpoint_folder(f"hf:{tmp_path / 'model'}")
    (tmp_path / "model" / "config.json").write_text("{}", encoding="utf-8")
    assert checkpoint_folder(f"hf:{tmp_path / 'model'}") == tmp_path / "model"
    with pytest.raises(InputError, match="does not exist"):
        checkpoint_folder(f"hf:{tmp_path / 'modell'}")


def test_a_name_is_looked_up_in_the_cache_by_branch_and_by_commit(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = make_snapshot(cache, "owner/name", "abc")
    second = make_snapshot(cache, "owner/name", "def", branch="v2")
    assert checkpoint_folder("hf:owner/name") == first
    assert checkpoint_folder("hf:owner/name@v2") == checkpoint_folder("hf:owner/name@def") == second
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "elsewhere"))
    assert hub_cache() == tmp_path / "elsewhere"
    with pytest.raises(InputError, match="--allow-download"):
        checkpoint_folder("hf:owner/name")


def test_a_missing_checkpoint_is_downloaded_only_on_request(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def snapshot_download(name: str, revision: str | None, allow_patterns: list[str]) -> str:
        asked.append((name, revision))
        assert not any("bin" in pattern for pattern in allow_patterns)
        (tmp_path / "config.json").write_text("{}", encoding="utf-8")
        return str(tmp_path)

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=snapshot_download))
    with pytest.raises(InputError, match=r"hf:owner/name is neither a folder nor in the cache .*--allow-download"):
        checkpoint_folder("hf:owner/name")
    assert asked == []
    assert checkpoint_folder("hf:owner/name@v1", allow_download=True) == tmp_path
    assert asked == [("owner/name", "v1")]
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"headswap\[hf\]"):
        checkpoint_folder("hf:owner/other", allow_download=True)


def test_a_file_named_like_a_checkpoint_takes_precedence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_checkpoint("hf:name")
    Path("hf:name").mkdir()
    assert not is_checkpoint("hf:name")
