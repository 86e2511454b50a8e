"""What pre-training gains on IMDb: the experiments of docs/results.md.

    python benchmarks/imdb.py prepare IMDB_FOLDER DATA      # clean splits, a tokenizer and a token store
    python benchmarks/imdb.py transfer DATA OUT --jobs 5    # lab preset, 1,600 labels, 5 seeds, scratch and pre-trained
    python benchmarks/imdb.py grid DATA OUT --jobs 5        # the default fine-tuning settings against a grid of 12
    python benchmarks/imdb.py grid DATA OUT --task chitchat

IMDB_FOLDER contains train, test and unsup.jsonl.gz with `text` and `label` (1 pos, 0 neg). Reviews of train and unsup
that also occur in test are dropped before training. Finished runs are not run again.
"""

import gzip
import itertools
import json
import subprocess
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from seed_means import mean_interval, paired_difference

import headswap as hs
from headswap.core.current_folder import new_python
from headswap.core.random_streams import numpy_stream
from headswap.data.labelled import read_labelled
from headswap.study.statistics.significance import Interval

app = App(help=__doc__)
RECIPES = Path(__file__).parent.parent / "recipes"
NUM_TEST = 5_000
VOCAB_SIZE = 16_000
TINY = ["--num-hidden-layers", 2, "--hidden-size", 128, "--intermediate-size", 512, "--max-length", 64]
Jobs = Annotated[int, Parameter(help="Number of fine-tunings in parallel.")]


def key_of(text: str) -> str:
    """Equal for reviews that differ in case, markup or white space only."""
    return " ".join(text.lower().replace("<br />", " ").split())


def read(file: Path) -> list[dict]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def write(file: Path, rows: list[dict]) -> None:
    with gzip.open(file, "wt", encoding="utf-8", compresslevel=6) as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows)


def headswap(*arguments: object) -> None:
    """Run one headswap command in a separate process."""
    command = new_python("-m", "headswap", *map(str, arguments))
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    print(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "done", flush=True)


@app.command
def prepare(imdb: Path, data: Path, /) -> None:
    """Write clean splits, a tokenizer and its token store; and the labelled sets of chitchat and Rotten Tomatoes."""
    data.mkdir(parents=True, exist_ok=True)
    names = {1: "pos", 0: "neg"}
    test = [{"text": row["text"], "label": names[row["label"]]} for row in read(imdb / "test.jsonl.gz")]
    write(data / "test-all.jsonl.gz", test)
    in_test = {key_of(row["text"]) for row in test}
    chosen = numpy_stream(0, "imdb test").permutation(len(test))[:NUM_TEST]
    write(data / "test.jsonl.gz", [test[index] for index in chosen])
    for part in ("train", "unsup"):
        source = read(imdb / f"{part}.jsonl.gz")
        kept: dict[str, dict] = {}
        for row in source:
            label = {"label": names[row["label"]]} if part == "train" else {}
            kept.setdefault(key_of(row["text"]), {"text": row["text"], **label})
        num_in_test = sum(key_of(row["text"]) in in_test for row in source)
        rows = [row for key, row in kept.items() if key not in in_test]
        print(f"{part}: {len(source)} reviews, {num_in_test} also in test, {len(rows)} kept")
        write(data / f"{part}.jsonl.gz", rows)
    for name, short in (("chitchat", "chitchat"), ("movies:rotten-tomatoes", "rt")):
        for split in ("train", "test"):
            examples = read_labelled(f"{name}/{split}", text_column="text", label_column="label")
            rows = [{"text": example.text, "label": example.label} for example in examples]
            write(data / f"{short}-{split}.jsonl.gz", rows)
    for name, corpus, size in (
        ("", data / "unsup.jsonl.gz", ["--vocab-size", VOCAB_SIZE]),
        ("chitchat-", "chitchat", []),
    ):
        headswap("tokenizer", corpus, "--out", data / f"{name}tokenizer.json", *size)
        headswap(
            "store", corpus, "--tokenizer", data / f"{name}tokenizer.json", "--out", data / f"{name}store",
            "--side", "sentence_starts",
        )  # fmt: skip


@app.command
def transfer(data: Path, out: Path, /, *, seeds: int = 5, jobs: Jobs = 1) -> None:
    """The lab's comparison on IMDb: 1,600 labels, scratch against pre-trained, the same settings for both."""
    base = out / "lab-base"
    headswap("pretrain", data / "store", "--config", RECIPES / "imdb-lab-pretrain.toml", "--out", base, "--resume")
    result = result_of(base)
    print(
        f"base: held-out loss {result['loss']:.3f}, perplexity {result['perplexity']:.1f}, "
        f"{result['tokens'] / 1e6:.0f} M tokens, {result['seconds']:.0f} s, "
        f"{result['tokens_per_second']:,.0f} tok/s on {result['device']}",
        flush=True,
    )
    starts = {
        "scratch": ["--base", "scratch", "--preset", "lab", "--max-length", 512, "--tokenizer", base],
        "pretrained": ["--base", base],
    }

    def one(arm: str, seed: int) -> dict:
        folder = out / f"lab-{arm}-seed{seed}"
        headswap(
            "finetune", *starts[arm], "--config", RECIPES / "imdb-lab-finetune.toml", "--seed", seed, "--out", folder,
            "--train", data / "train.jsonl.gz", "--test", data / "test.jsonl.gz", "--resume", "--threads", 2,
        )  # fmt: skip
        return result_of(folder)

    every = range(1, seeds + 1)
    with ThreadPoolExecutor(jobs) as pool:
        work = {(arm, seed): pool.submit(one, arm, seed) for seed in every for arm in starts}
    scores = {
        name: [work["scratch", seed].result()["baselines"][name]["accuracy"] for seed in every]
        for name in ("majority", "tfidf")
    }
    scores |= {arm: [work[arm, seed].result()["test"]["accuracy"] for seed in every] for arm in starts}
    print(f"\n| arm, 1,600 labels | test accuracy | 95 % interval, {seeds} seeds |\n|---|---|---|")
    for name, values in scores.items():
        print_row(name, mean_interval(values))
    print_row("pretrained - scratch, paired", paired_difference(scores["pretrained"], scores["scratch"]))
    (out / "transfer.json").write_text(json.dumps(scores, indent=2))


@app.command
def grid(
    data: Path,
    out: Path,
    /,
    *,
    seeds: int = 2,
    jobs: Jobs = 1,
    base_minutes: float = 1.0,
    task: str = "imdb",
    tiny: bool = False,
) -> None:
    """Default fine-tuning settings against 12 others, on a base trained on the text of the task.

    `--tiny` uses a base of 2 layers of 128 with context 64, and 1,600 labels, which two CPU cores can train.
    """
    name = "" if task == "imdb" else f"{task}-"
    labelled: dict[str, Any] = {part: str(data / f"{name}{part}.jsonl.gz") for part in ("train", "test")}
    labelled |= {"num_train": 1_600} if task == "imdb" or tiny else {}
    settings: dict[str, dict[str, Any]] = {"defaults": {}}
    rates = (1e-4, 2e-4, 4e-4, 8e-4) if tiny else (5e-5, 1e-4, 2e-4, 4e-4)
    for rate, epochs in itertools.product(rates, (3, 6, 12) if tiny else (5, 10, 20)):
        settings[f"lr {rate:g}, {epochs} epochs"] = {"learning_rate": rate, "num_train_epochs": epochs}
    base = out / f"{task}-base"
    limit = ["--max-minutes", base_minutes, "--batch-size", 64]
    shape = TINY if tiny else []
    headswap("pretrain", data / f"{name}store", "--out", base, *limit, *shape, "--resume")
    print(f"{task} base: perplexity {result_of(base)['perplexity']:.1f}", flush=True)

    # Separate processes, each used for several fine-tunings.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        work = {
            (setting, seed): pool.submit(
                finetuned, base, out / f"{task}-{setting.replace(' ', '').replace(',', '-')}-seed{seed}",
                labelled | settings[setting] | {"seed": seed},
            )
            for seed in range(1, seeds + 1)
            for setting in sorted(settings, key=lambda name: -settings[name].get("num_train_epochs", 0))
        }  # fmt: skip
    print(f"\n| {task} | test accuracy, mean of {seeds} seeds | each |\n|---|---|---|")
    for setting in settings:
        values = [work[setting, seed].result() for seed in range(1, seeds + 1)]
        each = ", ".join(f"{value:.4f}" for value in values)
        print(f"| {setting} | {sum(values) / seeds:.4f} | {each} |", flush=True)


def finetuned(base: Path, folder: Path, settings: dict[str, Any]) -> float:
    """The test accuracy of one fine-tuning; a finished one is not run again."""
    hs.finetune(base=base, out=folder, resume=True, threads=1, **settings)
    print(f"{folder.name}: {result_of(folder)['test']['accuracy']:.4f}", flush=True)
    return result_of(folder)["test"]["accuracy"]


def result_of(run: Path) -> dict:
    return json.loads((run / "result.json").read_text())


def print_row(name: str, found: Interval) -> None:
    spread = "too few seeds" if found.low is None else f"{found.low:.4f} to {found.high:.4f}"
    print(f"| {name} | {found.mean:.4f} | {spread} |")


if __name__ == "__main__":
    app()
