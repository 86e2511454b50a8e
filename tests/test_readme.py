"""Every command of the README runs, on a corpus and labels of its own."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tiny import sentences

README = Path(__file__).parent.parent / "README.md"
# The README's ten minutes and its budgets, on the small grammar.
QUICK = {"--max-minutes": "0.05", "--budgets": "40", "--seeds": "1"}


def commands() -> list[str]:
    """The lines of the bash blocks, in their order."""
    blocks = re.findall(r"```bash\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("headswap ")]


def test_the_readme_has_the_road_in_four_commands() -> None:
    assert [shlex.split(command)[1] for command in commands()[:4]] == ["pretrain", "generate", "finetune", "predict"]


@pytest.mark.slow
def test_every_readme_command_runs(tmp_path: Path) -> None:
    (tmp_path / "reviews.txt").write_text("".join(f"{text}\n" for text, _ in sentences(300)), encoding="utf-8")
    new = [f"{text} or so they say .\n" for text, _ in sentences(200, seed=3)]
    (tmp_path / "new-domain.txt").write_text("".join(new), encoding="utf-8")
    for name, count, seed in (("train", 240, 1), ("test", 40, 2)):
        rows = "".join(f'"{text}",{label}\n' for text, label in sentences(count, seed=seed))
        (tmp_path / f"{name}.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    environment = os.environ | {"HEADSWAP_CACHE": str(tmp_path / "cache")}
    for command in commands():
        words = shlex.split(command)
        for flag, value in QUICK.items():
            if flag in words:
                words[words.index(flag) + 1] = value
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert "Traceback" not in done.stderr
