"""Row 8: how long a user waits for the help page and for the first label."""

import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from headswap.bundle.bundle import Bundle
from headswap.core.current_folder import new_python
from headswap.model.text_model import build_model

from .peers import hf_classifier
from .row import Measured, Setting, Target
from .row_classify import _hf_words
from .shapes import lab_shape, model_shape
from .texts import tokenizer

HF = "import sys; from transformers import pipeline; print(pipeline('text-classification', sys.argv[1])(sys.argv[2]))"


def start_up(setting: Setting) -> list[Measured]:
    """Seconds of a whole process, from start to end; median over the rounds."""
    if setting.device == "cuda":
        return []
    words = tokenizer(2_000 if setting.is_tiny else 16_000)
    base = lab_shape(words.vocab_size)
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "ours", Path(folder) / "theirs"
        Bundle(build_model(model_shape(base, head="classify"), seed=0), words, ("neg", "pos")).save(ours)
        hf_classifier(base).save_pretrained(theirs)
        _hf_words(base).save_pretrained(theirs)
        commands = {
            "headswap --help, s": new_python("-m", "headswap", "--help"),
            "headswap predict, s": new_python("-m", "headswap", "predict", str(ours), "bada nar kola"),
            "importing torch alone, s": new_python("-c", "import torch"),
            "HF pipeline on one text, s": new_python("-c", HF, str(theirs), "bada nar kola"),
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(1 + setting.rounds):
            for name, command in commands.items():
                start = time.perf_counter()
                subprocess.run(command, check=True, capture_output=True)
                seconds[name].append(time.perf_counter() - start)
    found = Measured("whole processes", "s", floor="predict imports torch, which is measured too")
    found.measures = {name: median(each[1:]) for name, each in seconds.items()}  # the first one warms up the disk cache
    found.measures |= {f"{name[:-3]}: longest, s": max(each[1:]) for name, each in seconds.items()}
    found.targets = [
        Target("headswap --help, s", 0.5, is_most=True), Target("headswap predict, s", 3.0, is_most=True)
    ]  # fmt: skip
    return [found]
