"""Which base and which attention direction for tags: the installed base as it is, turned both ways, and scratch.

    python benchmarks/token_direction.py ATIS OUT --sizes 500 2000 --seeds 1 2

ATIS has train.jsonl.gz and valid.jsonl.gz (`tokens`, `tags`). Per seed so many sentences are drawn from train, at
least one with each of its tags; a part of them is held out to select the epoch. F1 is that of the validation file. The
test file is not read. `adapted` is first trained with the masked objective on the same sentences. Finished runs of OUT
are read again.
"""

import gzip
import json
import random
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import App, Parameter

import headswap as hs
from headswap.core.errors import InputError

app = App(help=__doc__)
BASE = "box:reviews-en"
ARMS: dict[str, dict[str, Any]] = {
    "causal": {"base": BASE, "direction": "causal"},
    "bidirectional": {"base": BASE, "direction": "bidirectional"},
    "bidirectional, at once": {"base": BASE, "direction": "bidirectional", "unfreeze": "at-once"},
    "bidirectional, rate x 3": {"base": BASE, "direction": "bidirectional", "learning_rate": 3e-4},
    "adapted": {"base": None},
    "scratch": {"base": "scratch"},
}
Names = Annotated[tuple[str, ...], Parameter(consume_multiple=True)]
Numbers = Annotated[tuple[int, ...], Parameter(consume_multiple=True)]


def result_of(folder: Path) -> dict[str, Any] | None:
    """The result of a finished run."""
    try:
        return json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def draw(rows: list[str], size: int, seed: int) -> list[str]:
    """Random rows: first those with a tag that no earlier row has, then others."""
    order = random.Random(seed).sample(rows, len(rows))
    seen: set[str] = set()
    first, others = [], []
    for row in order:
        tags = set(json.loads(row)["tags"])
        (others if tags <= seen else first).append(row)
        seen |= tags
    return (first + others)[:size]


def adapted_base(texts: Path, out: Path, seed: int, machine: dict[str, Any]) -> Path:
    """The installed base after masked training on the sentences, without tags."""
    if result_of(out) is None:
        hs.adapt(BASE, str(texts), objective="masked", out=out, seed=seed, overwrite=True, **machine)
    return out


@app.default
def main(
    atis: Path,
    out: Path,
    *,
    sizes: Numbers = (500, 2_000),
    seeds: Numbers = (1, 2),
    arms: Names = tuple(ARMS),
    epochs: int | None = None,
    device: str = "cpu",
) -> None:
    """Run every arm with every size and seed, and print the mean F1 on validation; `epochs` is that of `finetune`."""
    if unknown := set(arms) - set(ARMS):
        raise InputError(f"{sorted(unknown)} are no arms. There are {', '.join(ARMS)}.")
    machine = {"device": device, "threads": 1}
    with gzip.open(atis / "train.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = list(file)
    out.mkdir(parents=True, exist_ok=True)
    for size in sizes:
        scores: dict[str, list[float]] = {arm: [] for arm in arms}
        for seed in seeds:
            train, texts = out / f"{size}-{seed}.jsonl", out / f"{size}-{seed}.txt"
            chosen = draw(rows, size, seed)
            train.write_text("".join(chosen), encoding="utf-8")
            texts.write_text("".join(f"{' '.join(json.loads(row)['tokens'])}\n" for row in chosen), encoding="utf-8")
            for arm in arms:
                folder = out / f"{size}-{seed}-{arm.replace(', ', '-').replace(' ', '')}"
                result = result_of(folder)
                if result is None:
                    settings = {**ARMS[arm], "max_length": 64, "seed": seed, **machine}
                    settings |= {} if epochs is None else {"num_train_epochs": epochs}
                    if arm == "adapted":
                        settings["base"] = str(adapted_base(texts, out / f"{size}-{seed}-base", seed, machine))
                    settings |= {"train": str(train), "test": str(atis / "valid.jsonl.gz"), "overwrite": True}
                    result = hs.finetune(out=folder, task="tag", **settings).result
                scores[arm].append(result["test"]["f1"])
                print(f"{size} seed {seed} {arm}: {scores[arm][-1]:.4f} ({result['seconds']:.0f} s)", flush=True)
                linear = result["baselines"]["linear-tagger"]["f1"]
            print(f"{size} seed {seed} linear tagger: {linear:.4f}", flush=True)
        for arm, found in scores.items():
            print(f"{size}, {arm}: {np.mean(found):.3f} ({', '.join(f'{one:.3f}' for one in found)})", flush=True)


if __name__ == "__main__":
    app()
