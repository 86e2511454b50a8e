"""`headswap completion`: scripts that know the verbs and their flags."""

import shutil
import subprocess
from pathlib import Path

import pytest

from cli_calls import call
from headswap.cli.app import VERBS


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_has_every_verb_and_flags(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    script = call(capsys, "completion", shell)
    assert [verb for verb in VERBS if verb not in script] == []
    assert "learning-rate" in script


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_a_verb_and_a_flag(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "completion.bash").write_text(call(capsys, "completion", "bash"), encoding="utf-8")

    def completed(*words: str) -> list[str]:
        given = " ".join(f"'{word}'" for word in words)
        program = (
            f"source {tmp_path / 'completion.bash'}; COMP_WORDS=({given}); COMP_CWORD={len(words) - 1}; "
            '_headswap; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert completed("headswap", "fine") == ["finetune"]
    assert "--learning-rate" in completed("headswap", "finetune", "--learning-r")
