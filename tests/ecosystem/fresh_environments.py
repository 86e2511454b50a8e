"""Run by `make fresh-environments`: one classifier, exported once, answers the same in four new virtual environments.

A small classifier of the preset llama is fitted as a scikit-learn estimator and exported in three formats. Each
environment has one library (and what it depends on) and runs a program of `tests/ecosystem/fresh/`. The result with
the date and the versions is written into docs/interop.md.
"""

import json
import os
import pickle
import platform
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import headswap as hs
from headswap.interop.config import ExportSettings
from headswap.registry import EXPORTS
from tiny import TINY_LAYERS, sentences

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "fresh"
DOCUMENT = ROOT / "docs" / "interop.md"
BEGIN, END = "<!-- fresh environments: written by the script -->\n", "<!-- end -->\n"
TOLERANCE = 1e-4
TEXTS = [
    *(text for text, _ in sentences(20, seed=7)), "A fine, moving film!", "naïve café 42", "?", "the film " * 60,
]  # fmt: skip
"""The last one is longer than the model reads."""
ENVIRONMENTS: dict[str, tuple[str, ...]] = {
    "transformers": ("transformers",),
    "sentence-transformers": ("sentence-transformers",),
    "onnxruntime": ("onnxruntime", "tokenizers"),
    "scikit-learn": (str(ROOT),),
}
"""What is installed in each environment. scikit-learn is a dependency of headswap, whose estimator it restores."""
WITHOUT_TORCH = ("onnxruntime",)


def export(folder: Path) -> hs.TextClassifier:
    """Fit a classifier and write it in every format."""
    rows = sorted(set(sentences(400, seed=1)))
    model = hs.TextClassifier(
        preset="llama", pooling="last", max_length=40, num_train_epochs=3, learning_rate=5e-3, device="cpu",
        settings={**TINY_LAYERS, "direction": "causal", "head_bias": False},
    ).fit([text for text, _ in rows], [label for _, label in rows])  # fmt: skip
    for target in ("hf", "sentence-transformers", "onnx"):
        EXPORTS.load(target)().export(model.bundle_, folder / target, ExportSettings())
    (folder / "estimator.pkl").write_bytes(pickle.dumps(model))
    return model


def install(environment: Path, packages: tuple[str, ...], *, torch_first: bool) -> Path:
    """A new virtual environment with these packages; returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(environment)], check=True)
    python = environment / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", "constraints.txt"]
    for wanted in (("torch",), packages) if torch_first else (packages,):
        subprocess.run([*pip, *wanted], check=True, cwd=ROOT)
    return python


def answers(python: Path, program: Path, folder: Path) -> dict[str, Any]:
    """What a program prints, without the variables that could show it other packages or the network."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    variables = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        [str(python), "-I", str(program), str(folder), *TEXTS],
        capture_output=True, text=True, check=False, cwd=folder, env={**variables, "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{program.name} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(found: dict[str, Any], expected: np.ndarray, labels: list[str]) -> float:
    """The largest difference of a probability; a difference above the tolerance or another label ends the script."""
    gap = float(np.abs(np.array(found["probabilities"]) - expected).max())
    if found["labels"] != labels or not gap <= TOLERANCE:
        raise SystemExit(f"The answers differ: the largest difference of a probability is {gap:.2g}.")
    return gap


def write_result(lines: list[str]) -> None:
    """Replace the result in the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{DOCUMENT} has no place for the result: {BEGIN.strip()} and {END.strip()}.")
    DOCUMENT.write_text(before + BEGIN + "\n".join(lines) + "\n" + END + after, encoding="utf-8")


def main() -> None:
    """Export, install, compare, write."""
    folder = ROOT / "build" / "fresh-environments"
    exported = folder / f"exports-{os.getpid()}"
    exported.mkdir(parents=True)
    model = export(exported)
    expected, labels = model.predict_proba(TEXTS), model.predict(TEXTS).tolist()
    if len(set(labels)) < 2:
        raise SystemExit("The classifier answers every text alike, so the comparison would show nothing.")
    lines = [
        f"{date.today().isoformat()}, Python {platform.python_version()}, {len(TEXTS)} texts, "
        f"answers of headswap {hs.__version__} as the reference:",
        "",
        "| environment | versions | labels | largest difference of a probability |",
        "|---|---|---|---|",
    ]
    for name, packages in ENVIRONMENTS.items():
        started = time.monotonic()
        python = install(folder / name, packages, torch_first=name not in WITHOUT_TORCH)
        found = answers(python, PROGRAMS / f"with_{name.replace('-', '_')}.py", exported)
        gap = compare(found, expected, labels)
        versions = ", ".join(f"{package} {version}" for package, version in found["versions"].items())
        lines.append(f"| {name} only | {versions} | all equal | {gap:.1e} |")
        print(f"{lines[-1]}  ({time.monotonic() - started:.0f} s)", flush=True)
    write_result(lines)


if __name__ == "__main__":
    main()
