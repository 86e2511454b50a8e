"""Small runs of every kind whose weights and predictions a refactor must leave as they are, bit for bit.

`python tests/golden_runs.py --record` writes the SHA-256 of each to tests/golden_runs.json; without `--record` the runs
are made again and compared (`make golden`). Bits depend on the processor, on PyTorch and on the number of threads, so
the file names those it was written with, and a comparison on another machine says that it proves nothing.
"""

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from safetensors.numpy import load_file

sys.path.insert(0, str(Path(__file__).parent))
from task_data import INPUTS, ROWS, paired, write_rows
from tiny import sentences

FILE = Path(__file__).with_suffix(".json")
SHAPE = "--hidden-size 32 --num-hidden-layers 2 --num-attention-heads 2 --intermediate-size 48"
SMALL = f"{SHAPE} --max-length 40"
MACHINE = "--device cpu --threads 1 --quiet"
PRETRAIN = f"--vocab-size 320 --max-steps 24 --batch-size 8 --learning-rate 3e-3 --seed 7 {MACHINE}"
FINETUNE = f"--num-train-epochs 3 --learning-rate 2e-3 --seed 7 {MACHINE}"
STUDY = (
    f"--budgets 40,220 --seeds 2 --arms majority,tfidf,scratch,pretrained,lora,masked --max-length 24 --vocab-size 300 "
    f"{SHAPE} --pretrain.max-steps 6 --finetune.num-train-epochs 2 {MACHINE} --no-texts"
)


def headswap(command: str, *, processes: int = 1, folder: Path) -> str:
    """What a command prints on standard output."""
    start = ["-m", "headswap"]
    if processes > 1:
        start = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", *start]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HEADSWAP_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, *start, *command.split()], cwd=folder, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"headswap {command}\nended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def write_data(folder: Path) -> None:
    """The corpus and the labelled sets, from grammars and seeds."""
    texts = [text for text, _ in sentences(200)]
    stories = [". ".join(texts[start : start + 5]) for start in range(0, 200, 5)]
    write_rows(folder / "corpus.jsonl", [{"text": f"{text} no {number}"} for number, text in enumerate(texts)])
    write_rows(folder / "stories.jsonl", [{"text": text} for text in stories])
    for task, rows in {**ROWS, "pair": paired}.items():
        write_rows(folder / f"{task}-train.jsonl", rows(240, seed=1))
        write_rows(folder / f"{task}-test.jsonl", rows(40, seed=2))
    for role, count, seed in (("train", 240, 1), ("test", 60, 2)):
        rows = [{"text": f"{row['text']} mark {seed} {at}", "label": row["label"]} for at, row in
                enumerate(ROWS["classify"](count, seed=seed))]  # fmt: skip
        write_rows(folder / f"study-{role}.jsonl", rows)


def pretraining(name: str, arguments: str, *, processes: int = 1) -> Callable[[Path], str]:
    """A pre-training, and the hash of its weights."""

    def run(folder: Path) -> str:
        headswap(f"pretrain {arguments} --out {name}", processes=processes, folder=folder)
        return hash_of_weights(folder / name)

    return run


def finetuning(name: str, task: str, arguments: str) -> Callable[[Path], str]:
    """A fine-tuning, and the hash of its weights and of its answers to some inputs."""

    def run(folder: Path) -> str:
        data = f"--train {task}-train.jsonl --test {task}-test.jsonl"
        headswap(f"finetune {data} {arguments} {FINETUNE} --out {name}", folder=folder)
        answers = "" if task == "pair" else answers_of(folder / name, task)
        return combined(hash_of_weights(folder / name), answers, hash_of_predictions(folder / name))

    return run


def study(folder: Path) -> str:
    """A small study, and the hash of the predictions of all its jobs, in any order."""
    data = "--corpus corpus.jsonl --train study-train.jsonl --test study-test.jsonl"
    headswap(f"study {data} {STUDY} --out study", folder=folder)
    found = sorted(hash_of_predictions(file.parent) for file in folder.glob("study/**/predictions.npz"))
    return combined(str(len(found)), *found)


def hash_of_weights(run: Path) -> str:
    tensors = load_file(run / "bundle" / "model.safetensors")
    return combined(*(f"{name} {tensors[name].dtype} {tensors[name].tobytes().hex()}" for name in sorted(tensors)))


def hash_of_predictions(run: Path) -> str:
    file = run / "predictions.npz"
    if not file.exists():
        return ""
    with np.load(file, allow_pickle=False) as arrays:
        if "probabilities" not in arrays:  # of a regression: its answers are hashed
            return ""
        return combined(*(f"{name} {arrays[name].tobytes().hex()}" for name in ("probabilities", "targets")))


def answers_of(run: Path, task: str) -> str:
    """Every digit of what a fresh process answers."""
    code = (
        "import json, sys, headswap as hs\n"
        "answers = hs.load(sys.argv[1], device='cpu').predictions(json.loads(sys.argv[2]))\n"
        "print(json.dumps([answer.as_json() for answer in answers], sort_keys=True))"
    )
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    asked = [sys.executable, "-c", code, str(run), json.dumps(INPUTS[task])]
    return subprocess.run(asked, env=environment, capture_output=True, text=True, check=True).stdout


def combined(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


RUNS: dict[str, Callable[[Path], str]] = {
    "causal": pretraining("causal", f"corpus.jsonl {SMALL} {PRETRAIN}"),
    "causal, dropout, documents, accumulation": pretraining(
        "lab",
        f"corpus.jsonl --preset lab {SMALL} --dropout 0.1 --layout documents --gradient-accumulation-steps 2 "
        f"{PRETRAIN}",
    ),
    "causal, width 128": pretraining(
        "wide",
        "corpus.jsonl --hidden-size 128 --num-hidden-layers 2 --num-attention-heads 2 --intermediate-size 192 "
        f"--max-length 40 {PRETRAIN}",
    ),
    "masked words": pretraining("masked", f"corpus.jsonl --objective masked --mask-unit word {SMALL} {PRETRAIN}"),
    "next sentence": pretraining(
        "nsp", f"stories.jsonl --objective masked+nsp --held-out-fraction 0.1 {SHAPE} --max-length 200 {PRETRAIN}"
    ),
    "two processes": pretraining("two", f"corpus.jsonl {SMALL} {PRETRAIN}", processes=2),
    "classify, from scratch": finetuning("scratch", "classify", f"--base scratch {SMALL}"),
    "classify, gradual": finetuning("gradual", "classify", "--base causal --unfreeze gradual"),
    "classify, windows": finetuning("windows", "classify", "--base masked --long windows --max-length 8"),
    "lora": finetuning("lora", "classify", "--base causal --trainable lora"),
    "pairs": finetuning("pair", "pair", "--base masked --text-pair-column text_pair"),
    "multilabel": finetuning("multilabel", "multilabel", "--base masked --task multilabel"),
    "regress": finetuning("regress", "regress", "--base masked --task regress"),
    "tag": finetuning("tag", "tag", "--base masked --task tag"),
    "span": finetuning("span", "span", "--base masked --task span"),
    "adapt": lambda folder: _adapted(folder),
    "study": study,
}


def _adapted(folder: Path) -> str:
    settings = f"--max-steps 10 --batch-size 8 --learning-rate 1e-3 --seed 7 {MACHINE}"
    headswap(f"adapt causal stories.jsonl --out adapted {settings}", folder=folder)
    return hash_of_weights(folder / "adapted")


def machine() -> dict[str, str]:
    """What the bits depend on."""
    cpu_info = Path("/proc/cpuinfo")
    lines = cpu_info.read_text(encoding="utf-8").splitlines() if cpu_info.exists() else []
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    return {"processor": cpu, "torch": torch.__version__, "threads": "1"}


def made() -> Iterator[tuple[str, str]]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder)
        for run, make in RUNS.items():
            yield run, make(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true")
    if parser.parse_args().record:
        FILE.write_text(json.dumps({"machine": machine(), "runs": dict(made())}, indent=2) + "\n", encoding="utf-8")
        return 0
    recorded = json.loads(FILE.read_text(encoding="utf-8"))
    if recorded["machine"] != machine():
        print(f"Recorded on {recorded['machine']}, run on {machine()}: differences prove nothing.")
    different = []
    for run, found in made():
        is_equal = recorded["runs"].get(run) == found
        print(f"{'equal' if is_equal else 'DIFFERENT'}: {run}", flush=True)
        different += [] if is_equal else [run]
    print(f"{len(RUNS) - len(different)} of {len(RUNS)} runs are equal bit for bit.")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
