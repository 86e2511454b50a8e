"""docs/reliability.md: the tests it names exist, and its counts were written by a run."""

import re
from pathlib import Path

from reliability.torture import BEGIN, BEGIN_MUTATIONS, END, END_MUTATIONS

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def test_every_named_test_exists() -> None:
    named = NAMED.findall(DOCUMENT)
    assert len([name for _, name in named if name]) >= 40
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (ROOT / file).is_file()
        or (name and not re.search(rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE))
    ]
    assert missing == []


def test_every_promise_has_a_test() -> None:
    rows = [line for line in DOCUMENT.splitlines() if line.startswith("| ") and "| ---" not in line]
    promises = [row for row in rows if row.count("|") == 3 and "`tests/" in row]
    assert len(promises) >= 30


def test_the_counts_of_the_last_torture_have_no_failures() -> None:
    counts = DOCUMENT.split(BEGIN)[1].split(END)[0]
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", counts, re.MULTILINE))
    assert int(rows["processes killed with SIGKILL"].split()[0]) >= 200
    assert rows["runs that differed from the uninterrupted one"] == "0"
    assert int(rows["malformed inputs"]) >= 120
    assert rows["tracebacks"] == "0"


def test_the_counts_of_the_last_mutations_have_no_failures() -> None:
    counts = DOCUMENT.split(BEGIN_MUTATIONS)[1].split(END_MUTATIONS)[0]
    rows = [
        tuple(map(int, row)) for row in re.findall(r"\| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", counts, re.MULTILINE)
    ]
    assert len(rows) == 2
    assert sum(cases for cases, *_ in rows) >= 2000
    assert all(cases == detected + harmless and failures == 0 for cases, detected, harmless, failures in rows)
