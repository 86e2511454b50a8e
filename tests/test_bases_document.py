"""The example of docs/bases.md, step by step: from a run to a package that pip installs, used by its name."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tiny import sentences, write_labelled

DOCUMENT = Path(__file__).parents[1] / "docs" / "bases.md"
QUICK = [
    "--max-steps", "3", "--max-length", "24", "--hidden-size", "32", "--num-hidden-layers", "1",
    "--num-attention-heads", "2", "--intermediate-size", "32", "--vocab-size", "300", "--held-out-fraction", "0.1",
]  # fmt: skip


def blocks(language: str) -> list[str]:
    """The blocks of the section on shipping a base."""
    text = DOCUMENT.read_text(encoding="utf-8").partition("## Shipping your own")[2]
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def test_the_document_has_every_step() -> None:
    pretrain, pack, use = blocks("bash")
    assert pack.startswith("headswap pack runs/letters --out letters-base/src/letters_base")
    assert pretrain.startswith("headswap pretrain letters.txt --out runs/letters")
    assert use.startswith("pip install ./letters-base")
    assert len(blocks("toml")) == 1
    assert len(blocks("python")) == 2


@pytest.mark.slow
def test_the_example_of_shipping_a_base_works(tmp_path: Path) -> None:
    site = tmp_path / "site"
    environment = os.environ | {
        "HEADSWAP_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1",
    }  # fmt: skip

    def do(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{words}\n{done.stderr}"
        return done.stdout

    (tmp_path / "letters.txt").write_text("".join(f"{text}\n" for text, _ in sentences(120)), encoding="utf-8")
    rows = write_labelled(tmp_path / "train.jsonl", 20)
    (pretraining,), (pack,), uses = (block.splitlines() for block in blocks("bash"))
    words = shlex.split(pretraining)
    do("-m", *words[: words.index("--max-minutes")], *QUICK)
    (tmp_path / "reference.txt").write_text(
        "My dear friend, I write to you.\nThe rain has stopped.\n", encoding="utf-8"
    )
    do("-m", *shlex.split(pack))
    packing, module = blocks("python")
    do("-c", packing)
    project = tmp_path / "letters-base"
    (project / "pyproject.toml").write_text(blocks("toml")[0], encoding="utf-8")
    (project / "src" / "letters_base" / "__init__.py").write_text(module, encoding="utf-8")
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    do("-m", "pip", "install", "--quiet", *offline, "--target", str(site), "./letters-base")
    printed = [do("-m", *shlex.split(use.replace("train.csv", rows.name))) for use in uses[1:]]
    assert "box:letters\theadswap-base-letters 1.0\tcausal\t1 layers of 32" in printed[0]
    assert "CC0\tletters of the 19th century, and nothing else" in printed[0]
    assert printed[1].startswith("My dear")
    do("-m", "headswap", "doctor", "box:letters")
