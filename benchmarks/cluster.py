"""Many small jobs on a Ray cluster whose machines are killed, and a corpus in shards: speed, memory, nothing lost.

    python benchmarks/cluster.py jobs --count 1000 --machines 3 --kills 10
    python benchmarks/cluster.py corpus --sizes 50 200 --shard-mb 10
    python benchmarks/cluster.py read --sizes 50 200

`jobs` starts a cluster of several node processes on this machine, runs a study of two baselines and two tiny
fine-tunings with many seeds on it, and kills machines at random while it runs. It prints how many jobs were done, how
often a job was started again, and the seconds per job beside those of the local executor. `corpus` generates text, and
builds its token store with headswap (one store, shards, shards without near repeats, shards on Ray) and its ids with
`datasets.map`, each in a process of its own. It prints MB of text per second and per second of CPU time, and the peak
memory of the process and of the workers of Ray, for every size, and after a quarter, a half and all of the shards.
`read` builds stores of one shard and of one shard per file, and prints the peak memory of a process that reads all
documents in random order, and of a short pre-training run.
"""

import argparse
import json
import logging
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

VOCABULARY, WORDS_PER_TEXT = 50_000, 150
SHARE_EQUAL, SHARE_NEAR, MOST_KEPT = 0.05, 0.05, 10_000
NOTICE = "this page is not available any more because its owner removed it or moved it to another place " * 8
ARMS = ("majority", "tfidf", "scratch", "pretrained")
READER = """
import json, resource, sys, tempfile
import numpy as np
import headswap as hs
from pathlib import Path
from headswap.tokens.store import TokenStore

def memory():
    status = Path("/proc/self/status").read_text()
    return {name: round(int(status.split(name + ":")[1].split()[0]) / 1024) for name in ("VmHWM", "RssAnon", "RssFile")}

before = memory()
store = TokenStore.open(Path(sys.argv[1]))
opened = memory()
total = sum(int(store.document(int(row)).sum()) for row in np.random.default_rng(0).permutation(store.num_documents))
read = memory()
shape = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
with tempfile.TemporaryDirectory() as out:
    hs.pretrain(sys.argv[1], out=Path(out) / "run", max_steps=200, max_length=128, device="cpu", threads=1, **shape)
print(json.dumps({"before": before, "opened": opened, "all_read": read, "trained": memory()}))
"""
WAYS = ("store", "shards", "shards-near", "shards-ray", "datasets")


def main() -> None:
    """Run the part that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    jobs = parts.add_parser("jobs")
    jobs.add_argument("--count", type=int, default=1000)
    jobs.add_argument("--machines", type=int, default=3)
    jobs.add_argument("--kills", type=int, default=10)
    corpus = parts.add_parser("corpus")
    corpus.add_argument("--sizes", type=int, nargs="+", default=[50, 200], help="MB of text, ascending")
    corpus.add_argument("--folder", type=Path, help="where the generated text is kept for another call")
    corpus.add_argument("--shard-mb", type=float, default=10)
    corpus.add_argument("--ways", nargs="*", default=list(WAYS))
    corpus.add_argument("--notices", type=float, default=0, help="share of texts that differ in their last words only")
    read = parts.add_parser("read")
    read.add_argument("--sizes", type=int, nargs="+", default=[50, 200], help="MB of text, ascending")
    read.add_argument("--folder", type=Path, help="where the generated text is kept for another call")
    one = parts.add_parser("one")
    one.add_argument("way")
    one.add_argument("folder", type=Path)
    one.add_argument("num_files", type=int)
    one.add_argument("shard_mb", type=float)
    given = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if given.part == "jobs":
        print(json.dumps(run_jobs(given.count, given.machines, given.kills), indent=2))
    elif given.part == "corpus":
        for line in run_corpus(given.folder, given.sizes, given.shard_mb, given.ways, given.notices):
            print(json.dumps(line), flush=True)
    elif given.part == "read":
        for line in run_read(given.folder, given.sizes):
            print(json.dumps(line), flush=True)
    else:
        print(json.dumps(measure(given.way, given.folder, given.num_files, given.shard_mb)))


def run_jobs(count: int, num_machines: int, num_kills: int) -> dict[str, Any]:
    """The same jobs on a cluster whose machines are killed, and in local workers."""
    from ray.cluster_utils import Cluster

    from headswap.study.executors.local import LocalWorkers
    from headswap.study.executors.ray_workers import RayWorkers

    losses: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: losses.append(record.msg) if "was lost" in record.msg else None  # type: ignore[method-assign]
    logging.getLogger("headswap").addHandler(handler)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["HEADSWAP_CACHE"] = str(folder / "cache")
        sections = _write_labelled(folder, count)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        machines = [cluster.add_node(num_cpus=1) for _ in range(num_machines)]
        backend = RayWorkers(cluster.address, parallel=num_machines, cores=1, device="cpu")
        killer = _Killer(cluster, machines, count, num_kills)
        on_ray = _run_all(folder / "ray", sections, num_machines, backend, killer)
        cluster.shutdown()
        local = _run_all(folder / "local", sections, num_machines, LocalWorkers(num_machines), None)
        same = _num_equal(folder / "ray", folder / "local")
    return {
        "jobs": count, "machines": num_machines, "killed": killer.num_killed, "started_again": len(losses),
        "ray": on_ray, "local": local, "equal_predictions": same,
    }  # fmt: skip


def _write_labelled(folder: Path, count: int) -> dict[str, Any]:
    """A small labelled set, and a study of four arms with equally many seeds: two baselines, two tiny fine-tunings."""
    draw = random.Random(0)
    for name, size in (("train", 400), ("test", 200)):
        rows = [{"text": f"{name} text {number} {draw.random()}", "label": draw.choice("ab")} for number in range(size)]
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    (folder / "corpus.txt").write_text("".join(f"text {number} {draw.random()}\n" for number in range(200)))
    study = {"arms": ARMS, "budgets": ("40",), "seeds": count // len(ARMS), "on_overlap": "report", "max_length": 24}
    return {
        "study": {"corpus": (str(folder / "corpus.txt"),), **study},
        "data": {"train": str(folder / "train.jsonl"), "test": str(folder / "test.jsonl")},
        "tokenizer": {"vocab_size": 300},
        "model": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32},
        "pretrain": {"max_steps": 3},
        "finetune": {"num_train_epochs": 2},
        "machine": {"device": "cpu", "threads": 1},
    }


class _Killer:
    """A watcher that kills a machine at random moments and adds a new one."""

    def __init__(self, cluster: Any, machines: list[Any], count: int, num_kills: int) -> None:
        self.cluster, self.machines = cluster, machines
        self.draw = random.Random(1)
        self.moments = sorted(self.draw.sample(range(count // 20, count - count // 20), num_kills))
        self.num_ended = self.num_killed = 0

    def on_start(self, job: Any) -> None:
        """Nothing to do."""

    def on_end(self, job: Any, *, seconds: float, problem: str | None) -> None:
        """Count the jobs that have ended."""
        self.num_ended += 1

    def on_wait(self, running: list[Any]) -> None:
        """Kill a machine that may run a job."""
        if running and self.moments and self.num_ended >= self.moments[0]:
            self.moments.pop(0)
            machine = self.machines.pop(self.draw.randrange(len(self.machines)))
            self.cluster.remove_node(machine, allow_graceful=False)
            self.machines.append(self.cluster.add_node(num_cpus=1))
            self.num_killed += 1


def _run_all(out: Path, sections: dict[str, Any], parallel: int, backend: Any, watcher: Any) -> dict[str, Any]:
    from headswap.study.run import run_study

    prepared: list[float] = []
    study = run_study(
        out=out, sections=sections, jobs=parallel, backend=backend, watcher=watcher,
        on_preflight=lambda _: prepared.append(time.perf_counter()),
    )  # fmt: skip
    seconds = time.perf_counter() - prepared[0]
    num_done = len(study.outcome.done)
    return {
        "done": num_done, "failed": len(study.outcome.failed), "seconds": round(seconds, 1),
        "seconds_per_job": round(seconds / max(1, num_done), 4),
    }  # fmt: skip


def _num_equal(one: Path, other: Path) -> int:
    """How many jobs have the same predictions in both studies."""
    names = [file.relative_to(one) for file in one.glob("runs/*/predictions.npz")]
    return sum(
        all(np.array_equal(np.load(one / name)[key], np.load(other / name)[key]) for key in np.load(one / name).files)
        for name in names
    )


def run_corpus(kept: Path | None, sizes: list[int], shard_mb: float, ways: list[str], notices: float) -> Any:
    """One line per way and size; the first line describes the text."""
    with tempfile.TemporaryDirectory() as name:
        folder, ends = _texts(kept or Path(name), sizes[-1], notices)
        yield {"files": len(ends), "MB": round(float(ends[-1]), 1), "cores": os.cpu_count()}
        for way in ways:
            for size in sizes:
                count = min(len(ends), int(np.searchsorted(ends, size)) + 1)
                command = [sys.executable, __file__, "one", way, str(folder), str(count), str(shard_mb)]
                limits = {"RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "HF_DATASETS_OFFLINE": "1"}
                limits |= {"HF_HOME": str(folder / "hf"), "TOKENIZERS_PARALLELISM": "false"}
                done = subprocess.run(command, capture_output=True, text=True, env=os.environ | limits)
                if done.returncode:
                    raise SystemExit(done.stderr)
                yield json.loads(done.stdout.splitlines()[-1])


def _texts(folder: Path, num_mb: int, notices: float = 0) -> tuple[Path, np.ndarray]:
    """The folder of the generated text, and the MB of text up to the end of each file."""
    folder.mkdir(exist_ok=True)
    if not (folder / "tokenizer.json").exists():
        _write_texts(folder / "texts", num_mb, notices)
        _write_tokenizer(folder)
    return folder, np.cumsum([file.stat().st_size for file in sorted((folder / "texts").iterdir())]) / 1e6


def run_read(kept: Path | None, sizes: list[int]) -> Any:
    """One line per size and number of shards."""
    from headswap.tokens.tokenizer import Tokenizer

    with tempfile.TemporaryDirectory() as name:
        folder, ends = _texts(kept or Path(name), sizes[-1])
        tokenizer = Tokenizer.load(folder / "tokenizer.json")
        for size in sizes:
            files = [str(file) for file in sorted((folder / "texts").iterdir())[: int(np.searchsorted(ends, size)) + 1]]
            for shard_mb in (1e6, 1e-6):
                out = Path(name) / f"{size}-{shard_mb}"
                shards = _headswap("shards", files, tokenizer, out, shard_mb)["shards"]
                done = subprocess.run([sys.executable, "-c", READER, str(out)], capture_output=True, text=True)
                if done.returncode:
                    raise SystemExit(done.stderr)
                yield {"MB": round(float(ends[len(files) - 1]), 1), "shards": shards, **json.loads(done.stdout)}
                shutil.rmtree(out)


def _write_tokenizer(folder: Path) -> None:
    from headswap.data.config import ReadSettings
    from headswap.data.documents import read_documents
    from headswap.tokens.config import TokenizerSettings
    from headswap.tokens.train_tokenizer import train_tokenizer

    documents = read_documents([str(folder / "texts" / "part-0000.txt")], ReadSettings(documents="line"))
    train_tokenizer(documents, TokenizerSettings(vocab_size=8000)).save(folder / "tokenizer.json")


def _write_texts(folder: Path, num_mb: int, notices: float) -> tuple[int, int]:
    """Files of about 5 MB with one text per line; some repeat an earlier one, equally or nearly, some are notices."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(rng.choice(letters, size)) for size in rng.integers(2, 11, VOCABULARY)])
    kept: list[str] = []  # a random sample of all texts so far, so that a repeat can be of any earlier file
    num_files = num_bytes = num_new = 0
    while num_bytes < num_mb * 1e6:
        lines = []
        for number in range(5_000):
            drawn = rng.random()
            if kept and drawn < SHARE_EQUAL:
                text = kept[int(rng.integers(len(kept)))]
            elif kept and drawn < SHARE_EQUAL + SHARE_NEAR:
                text = f"{kept[int(rng.integers(len(kept)))]} {words[int(rng.integers(VOCABULARY))]}"
            elif drawn < SHARE_EQUAL + SHARE_NEAR + notices:
                text = f"{NOTICE} {num_files} {number}"
            else:
                text = " ".join(words[np.minimum(rng.zipf(1.3, WORDS_PER_TEXT), VOCABULARY) - 1])
                num_new += 1
                place = int(rng.integers(num_new))
                if len(kept) < MOST_KEPT:
                    kept.append(text)
                elif place < MOST_KEPT:
                    kept[place] = text
            lines.append(text)
        content = "\n".join(lines) + "\n"
        (folder / f"part-{num_files:04d}.txt").write_text(content, encoding="utf-8")
        num_files, num_bytes = num_files + 1, num_bytes + len(content)
    return num_files, num_bytes


def measure(way: str, folder: Path, num_files: int, shard_mb: float) -> dict[str, Any]:
    """Build the ids of some files in one way, in this process."""
    files = [str(file) for file in sorted((folder / "texts").iterdir())[:num_files]]
    out = folder / f"{way}-{num_files}"
    from headswap.tokens.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    workers = _WorkerMemory()
    logging.getLogger("headswap").addHandler(trace := _Trace(workers))
    logging.getLogger("headswap").setLevel(logging.INFO)
    start, cpu_start = time.perf_counter(), time.process_time()
    found = _datasets(files, folder) if way == "datasets" else _headswap(way, files, tokenizer, out, shard_mb)
    seconds = time.perf_counter() - start
    cpu_seconds = time.process_time() - cpu_start
    peak, of_workers = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, workers.stop()
    cpu_seconds += sum(workers.cpu_seconds.values())
    num_mb = sum(Path(file).stat().st_size for file in files) / 1e6
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(folder / "hf", ignore_errors=True)
    return {
        "way": way, "MB": round(num_mb, 1), "seconds": round(seconds, 1), "MB_per_second": round(num_mb / seconds, 2),
        "MB_per_CPU_second": round(num_mb / cpu_seconds, 2),
        "peak_MB": round(peak / 1024), "peak_worker_MB": round(of_workers / 1024), "before_MB": round(before / 1024),
        "peaks_after_shards": trace.peaks, **found,
    }  # fmt: skip


class _Trace(logging.Handler):
    """The peak memory of the process and of a worker after a quarter, a half and all of the shards."""

    def __init__(self, workers: "_WorkerMemory") -> None:
        super().__init__()
        self.workers, self.peaks = workers, {}

    def emit(self, record: logging.LogRecord) -> None:
        if "shard encoded" in record.getMessage():
            done, total = (int(str(number).replace(",", "")) for number in record.args[:2])
            if done in (-(-total // 4), -(-total // 2), total):
                own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                self.peaks[done] = [round(own / 1024), round(self.workers.largest / 1024)]


class _WorkerMemory:
    """The largest peak memory of a worker of Ray in KiB, and the CPU time of each, looked up every half second."""

    def __init__(self) -> None:
        self.largest = 0
        self.cpu_seconds: dict[str, float] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        self._end.set()
        self._thread.join()
        return self.largest

    def _watch(self) -> None:
        while not self._end.wait(0.5):
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError, IndexError, ValueError):  # it has ended
                    if (process / "cmdline").read_bytes().startswith(b"ray::run_on_node"):
                        peak = (process / "status").read_text().split("VmHWM:")[1].split()[0]
                        self.largest = max(self.largest, int(peak))
                        ticks = (process / "stat").read_text().rpartition(")")[2].split()[11:13]
                        self.cpu_seconds[process.name] = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def _headswap(way: str, files: list[str], tokenizer: Any, out: Path, shard_mb: float) -> dict[str, Any]:
    from headswap.data.config import ReadSettings
    from headswap.data.documents import read_documents
    from headswap.tokens.sharded_store import build_sharded_store
    from headswap.tokens.store import build_store

    settings = ReadSettings(documents="line")
    if way == "store":
        store = build_store(read_documents(files, settings), tokenizer, out)
    else:
        store = build_sharded_store(
            files, settings, tokenizer, out, shard_bytes=int(shard_mb * 1e6),
            duplicates="near" if way == "shards-near" else "keep", executor="ray" if way == "shards-ray" else "local",
        )  # fmt: skip
    shards = {"shards": len(store.meta["shards"]), "dropped": store.meta["num_dropped"]} if way != "store" else {}
    return {"tokens": store.num_tokens, "ids": store.meta["arrays"]["ids"]["sha256"][:12], **shards}


def _datasets(files: list[str], folder: Path) -> dict[str, Any]:
    """The same ids by `datasets.map` in one process, with the same package for tokenizing."""
    import datasets
    import tokenizers

    fast = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    rows = datasets.load_dataset("text", data_files=files, split="train")

    def encode(batch: dict[str, list[str]]) -> dict[str, Any]:
        return {"ids": [one.ids for one in fast.encode_batch(batch["text"], add_special_tokens=False)]}

    encoded = rows.map(encode, batched=True, batch_size=1000, remove_columns=["text"])
    return {"tokens": sum(len(ids) for batch in encoded.iter(1000) for ids in batch["ids"])}


if __name__ == "__main__":
    main()
