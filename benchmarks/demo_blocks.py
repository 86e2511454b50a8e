"""How often a demo shows a gain: the study of `headswap demo` with 10 disjoint blocks of other seeds.

    python benchmarks/demo_blocks.py --out runs/demo-blocks
    python benchmarks/demo_blocks.py design --out runs/demo-blocks    # how many seeds a demo needs

The study has the seeds 1 to 55. Seeds 1 to 5 are those of the demo, by which its design was chosen; the others are
divided into 10 blocks of 5. Each block is analysed like a demo of its own: the best baseline is chosen again, and the
planned tests are those of the report. Three things are counted: each planned test, a gain on average over scratch
together with a gain over the best baseline at every budget, and all planned tests together. The same command resumes a
run that was stopped; `--report-only` prints the blocks that are finished. `--device cuda` runs it on a GPU.

`design` reads the seeds of the demo only. It simulates demos with other numbers of seeds: the effect of a seed is drawn
from a normal distribution with the mean and the variance of the seeds that were run, the answer to a text from theirs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from cyclopts import App, Parameter

from headswap.cli.verbs.demo import BASELINE_ARMS, SEEDS, demo_sections
from headswap.study.run import run_study
from headswap.study.setup.arms import BOX, SCRATCH
from headswap.study.statistics.runs import StudyRuns, read_study
from headswap.study.statistics.score_results import Comparison, OverallDifference
from headswap.study.statistics.score_table import ScoreTable
from headswap.study.statistics.significance import ALPHA, crossed_mean, holm

app = App(help=__doc__)
NUM_BLOCKS = 10
ARMS = (*BASELINE_ARMS, SCRATCH, BOX)
Device = Literal["cpu", "cuda"]
Seeds = Annotated[tuple[int, ...], Parameter(consume_multiple=True)]


@dataclass(frozen=True)
class Block:
    """The planned tests of one block of seeds."""

    seeds: Sequence[int]
    overall: OverallDifference
    comparisons: Sequence[Comparison]

    @property
    def tests(self) -> "list[OverallDifference | Comparison]":
        """Against scratch on average, against scratch per budget, against the best baseline per budget."""
        families = ("scratch", "baseline")
        return [self.overall, *(row for family in families for row in self.comparisons if row.family == family)]

    @property
    def has_gains(self) -> bool:
        """Whether the gain over scratch, on average, and those over the best baseline are shown."""
        over_baseline = [row.verdict for row in self.comparisons if row.family == "baseline"]
        return {self.overall.verdict, *over_baseline} == {"better"}

    @property
    def is_shown(self) -> bool:
        """Whether every planned test shows a gain."""
        return all(test.verdict == "better" for test in self.tests)


def blocks_of(num_blocks: int, seeds_per_block: int) -> list[tuple[int, ...]]:
    """Disjoint blocks of seeds after those of the demo."""
    starts = (1 + seeds_per_block * (1 + block) for block in range(num_blocks))
    return [tuple(range(start, start + seeds_per_block)) for start in starts]


def analysed(study: StudyRuns, seeds: Sequence[int]) -> Block | None:
    """The planned tests with these seeds only; None if a run of them is missing."""
    cells = [(arm, budget.labels) for arm in study.arms for budget in study.budgets]
    if not all(set(seeds) <= study.by_seed(arm, labels).keys() for arm, labels in cells):
        return None
    runs = [run for run in study.runs if run.seed in seeds]
    table = ScoreTable(replace(study, runs=runs))
    overall = table.overall()
    assert overall is not None, "the demo has two numbers of labels and the arm scratch"
    return Block(seeds, overall, table.comparisons())


def heading(test: OverallDifference | Comparison) -> str:
    """The column of a test."""
    if isinstance(test, OverallDifference):
        return f"{test.arm} - {test.other}, mean"
    other = test.other if test.family == "scratch" else "best baseline"
    return f"{test.arm} - {other}, {test.labels} labels"


def cell(test: OverallDifference | Comparison) -> str:
    """The difference in points with its interval, and whether the test shows it."""
    bounds = [f"{bound * 100:+.1f}" for bound in (test.low, test.high) if bound is not None]
    span = f" ({' to '.join(bounds)})" if bounds else ""
    other = f"{test.other} " if isinstance(test, Comparison) and test.family == "baseline" else ""
    mark = {"better": "", "worse": " LOSS"}.get(test.verdict, " not shown")
    return f"{other}{test.mean * 100:+.1f}{span}{mark}"


def print_blocks(blocks: Sequence[Block]) -> None:
    """One line per block, then the counts."""
    columns = ["seeds", *(heading(test) for test in blocks[0].tests), "all shown"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for block in blocks:
        seeds = f"{block.seeds[0]} to {block.seeds[-1]}"
        print(f"| {' | '.join([seeds, *map(cell, block.tests), 'yes' if block.is_shown else 'no'])} |")
    for place, name in enumerate(columns[1:-1]):
        print(f"{name}: shown in {_count(block.tests[place].verdict == 'better' for block in blocks)}")
    print(f"scratch on average and best baseline per budget: shown in {_count(block.has_gains for block in blocks)}")
    print(f"all planned tests: shown in {_count(block.is_shown for block in blocks)}")


def _count(values: Iterable[bool]) -> str:
    every = list(values)
    return f"{sum(every)} of {len(every)}"


def simulated(values: np.ndarray, num_seeds: int, stream: np.random.Generator) -> float:
    """The p of a comparison with new seeds, drawn from the differences of seeds x texts that were measured."""
    num_texts = values.shape[1]
    drawn = values[stream.integers(0, len(values), (num_seeds, num_texts)), np.arange(num_texts)]
    effects = stream.normal(0, values.mean(axis=1).std(ddof=1), num_seeds)
    p = crossed_mean(drawn + effects[:, None]).p_value()
    assert p is not None
    return p


@app.command
def design(*, out: Path, seeds: Seeds = (3, 4, 5, 6), draws: int = 1_000, handicap: float = 0.0) -> None:
    """Print how often simulated demos show a gain at every budget; `handicap` is subtracted from every difference."""
    study = read_study(out)
    table = ScoreTable(study)
    stream = np.random.default_rng(0)
    for name, others in ((SCRATCH, dict.fromkeys(table.baselines, SCRATCH)), ("best baseline", table.baselines)):
        found = []
        for labels, other in others.items():
            ours, theirs = (study.by_seed(arm, labels) for arm in (BOX, other))
            rows = [seed for seed in range(1, SEEDS + 1) if seed in ours and seed in theirs]
            values = np.stack([table.units[ours[seed].folder] - table.units[theirs[seed].folder] for seed in rows])
            means = values.mean(axis=1) * 100
            measured = f"{means.mean():.1f} points, standard deviation {means.std(ddof=1):.1f}"
            print(f"{BOX} - {other}, {labels} labels: {measured} over {len(rows)} seeds")
            found.append(values - handicap)
        for count in seeds:
            corrected = [holm([simulated(values, count, stream) for values in found]) for _ in range(draws)]
            share = np.mean([all(p is not None and p < ALPHA for p in ps) for ps in corrected])
            print(f"{name}, {count} seeds: a difference is shown at every budget in {share:.0%} of the demos")


@app.default
def main(
    *,
    out: Path,
    blocks: int = NUM_BLOCKS,
    seeds: int = SEEDS,
    jobs: int = 2,
    device: Device = "cpu",
    report_only: bool = False,
) -> None:
    """Run the study, or resume it, and print its blocks."""
    divided = blocks_of(blocks, seeds)
    if not report_only:
        sections = demo_sections(ARMS, seeds=divided[-1][-1])
        sections["study"] |= {"keep": "results"}
        run_study(out=out, sections=sections | {"machine": {"threads": 1, "device": device}}, jobs=jobs)
    study = read_study(out)
    found = [block for block in (analysed(study, part) for part in divided) if block is not None]
    if found:
        print_blocks(found)
    if len(found) < len(divided):
        print(f"{len(divided) - len(found)} of {len(divided)} blocks are not finished; the same command resumes them.")


if __name__ == "__main__":
    app()
