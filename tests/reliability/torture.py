"""Run by `make torture`: kill runs, try every malformed input, mutate files at random, and write the counts.

It uses harness.py, with many more kills, several per run, and mutation_runs.py. Moments and mutations depend on a seed.
The counts are written to docs/reliability.md, between marks. The exit code is 1 if any result differs.
"""

import argparse
import datetime
import logging
import os
import sys
import tempfile
from pathlib import Path

import torch

from headswap.core.files import atomic_file
from headswap.core.random_streams import numpy_stream
from headswap.data.config import ReadSettings
from headswap.data.documents import read_documents
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.train_tokenizer import train_tokenizer
from reliability.extreme_inputs import CASES
from reliability.harness import JOBS, STORE, Harness
from reliability.mutation_runs import MEMORY, MutationCounts, run_mutations
from reliability.outcome import make_good, outcome_of
from reliability.victim import Trigger

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- counts of the last torture: written by make torture -->", "<!-- end of the counts -->"
BEGIN_MUTATIONS = "<!-- counts of the last mutations: written by make torture -->"
END_MUTATIONS = "<!-- end of the mutations -->"
LONGEST_CHAIN = 4


def kill_many(folder: Path, number: int, seed: int) -> Harness:
    """Kill jobs, each several times at random moments, until there are enough kills."""
    harness = Harness(folder)
    documents = read_documents([str(harness.files / "corpus.txt")], ReadSettings())
    train_tokenizer(documents, TokenizerSettings(vocab_size=300)).save(harness.files / "tokenizer.json")
    draws = numpy_stream(seed, "torture")
    chain = 0
    while harness.tally.num_kills < number:
        chain += 1
        job = JOBS[int(draws.integers(0, 10)) % len(JOBS)] if chain % 8 == 0 else JOBS[chain % 2]
        moments = harness.uninterrupted(job)[1]["any"]
        length = 1 if job is STORE else int(draws.integers(1, LONGEST_CHAIN + 1))
        triggers = [
            Trigger("any", int(draws.integers(1, moments + 1)), is_held=bool(draws.random() < 0.8))
            for _ in range(length)
        ]
        harness.chain(job, f"{job.name}-{chain}", triggers)
        print(f"\r{harness.tally.num_kills} kills, {len(harness.tally.mismatches)} mismatches", end="", file=sys.stderr)
    print(file=sys.stderr)
    return harness


def try_bad_inputs(folder: Path) -> tuple[int, list[str], int]:
    """The number of malformed inputs, those with a wrong outcome, and the number of tracebacks."""
    os.environ["HEADSWAP_CACHE"] = str(folder / "cache")
    logging.getLogger("headswap").setLevel(logging.ERROR)
    good = make_good(folder / "good")
    failed, tracebacks = [], 0
    for number, case in enumerate(CASES):
        outcome = outcome_of(case, folder / str(number), good)
        tracebacks += "Traceback" in outcome.err
        if problems := outcome.problems(case):
            failed.append(f"{case.name}: {problems[0]}")
    return len(CASES), failed, tracebacks


def table(harness: Harness, bad: tuple[int, list[str], int], seed: int) -> str:
    """The counts as a table, without times and machine names."""
    tally = harness.tally
    where = ", ".join(f"{kind} {count}" for kind, count in tally.kills.most_common())
    rows = [
        ("processes killed with SIGKILL", f"{tally.num_kills} (seed {seed}; {where})"),
        ("resumes", str(tally.resumes)),
        ("runs that differed from the uninterrupted one", str(len(tally.mismatches))),
        ("malformed inputs", str(bad[0])),
        ("not answered with exit code 2, the expected sentence and an unchanged disk", str(len(bad[1]))),
        ("tracebacks", str(bad[2])),
        ("torch, threads", f"{torch.__version__}, 1"),
    ]
    return "\n".join(["| what | count |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)])


def mutation_table(counts: MutationCounts, seed: int) -> str:
    """The verdicts on mutated files as a table."""
    rows = ["| mutated files | cases | detected or refused | harmless | failures |", "| --- | --- | --- | --- | --- |"]
    for name, found in (
        ("under a manifest, a digest or a checksum", counts.protected),
        ("inputs of the user", counts.inputs),
    ):
        numbers = " | ".join(str(found[kind]) for kind in ("cases", "detected", "harmless", "failures"))
        rows.append(f"| {name} | {numbers} |")
    made = f"Seed {seed}, {MEMORY >> 30} GiB of memory per process, {datetime.date.today().isoformat()}."
    return "\n".join([*rows, "", made])


def write(counts: str, begin: str = BEGIN, end: str = END) -> None:
    """Write the counts between two marks of the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    before, rest = text.split(begin)
    _, after = rest.split(end)
    with atomic_file(DOCUMENT) as temporary:
        temporary.write_text(f"{before}{begin}\n{counts}\n{end}{after}", encoding="utf-8")


def main() -> int:
    """Run everything, print and write the counts; 1 if any result differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mutations", type=int, default=2000)
    parser.add_argument("--only", choices=["mutations"], help="leave the kills and the catalogue out")
    parser.add_argument("--print", action="store_true", help="print the counts and do not change the document")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="torture-") as name:
        mutations = run_mutations(Path(name) / "mutations", given.mutations, given.seed)
        shown = mutation_table(mutations, given.seed)
        print("\n".join([shown, *mutations.failures]))
        if not given.print:
            write(shown, BEGIN_MUTATIONS, END_MUTATIONS)
        if given.only:
            return 1 if mutations.failures else 0
        bad = try_bad_inputs(Path(name) / "bad")
        harness = kill_many(Path(name) / "kills", given.kills, given.seed)
        counts = table(harness, bad, given.seed)
        print("\n".join([counts, *bad[1], *harness.tally.mismatches]))
        if not given.print:
            write(counts)
    return 1 if harness.tally.mismatches or bad[1] or mutations.failures else 0


if __name__ == "__main__":
    sys.exit(main())
