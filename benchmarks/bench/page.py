"""docs/performance.md from the bench's figures: make bench-page.

Figures are read from benchmarks/results/cpu.json and gpu.json. The text of benchmarks/performance_notes.md is appended.
"""

import json
from pathlib import Path
from typing import Any

from headswap.core.errors import counted

ROOT = Path(__file__).parents[2]
RESULTS, NOTES, PAGE = (
    ROOT / "benchmarks/results",
    ROOT / "benchmarks/performance_notes.md",
    ROOT / "docs/performance.md",
)
HEAD = """# Speed

`make bench-page` generates this page from the figures of `make bench` and `make bench-gpu`. Edit
`benchmarks/performance_notes.md` and the bench, not this page.

Every comparison runs headswap and other libraries alternately, on the same work, and counts real tokens without
padding. A ratio is taken within each round; the tables show the median over the rounds with the smallest and largest in
brackets. The others are the lab's code (`nn.TransformerEncoder`, float32) and Hugging Face transformers in the same
shape: *default* without flags, *best* in its strongest setting. *Ceilings* are measured peak rates of the machine.
*Floor* is the least number of operations and bytes that a row needs, and the speed that the ceilings allow for it.
"""


def main() -> None:
    """Write the page."""
    parts = [HEAD]
    for name in ("cpu", "gpu"):
        file = RESULTS / f"{name}.json"
        if file.exists():
            parts.append(device_part(json.loads(file.read_text(encoding="utf-8"))))
    parts.append(NOTES.read_text(encoding="utf-8"))
    PAGE.write_text("\n".join(part.strip() + "\n" for part in parts), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} is written.")


def device_part(content: dict[str, Any]) -> str:
    """All results of one device."""
    machine = content["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    lines = [
        f"## {machine['device']}",
        "",
        f"{machine['date']}; {versions}. Measured ceilings: {ceilings(machine['ceiling'])}.",
        "",
        *summary(content["rows"]),
    ]
    for number, row in content["rows"].items():
        lines += [
            "",
            f"### {number}. {row['title'][0].upper()}{row['title'][1:]}",
            "",
            f"Measured {row['date']}, {counted(row['threads'], 'thread')} per side"
            + (f"; ceilings of that run: {ceilings(row['ceiling'])}." if "ceiling" in row else "."),
        ]
        for contest in row["contests"]:
            lines += ["", *contest_lines(contest)]
    return "\n".join(lines)


def ceilings(found: dict[str, float]) -> str:
    """The measured peak rates as text."""
    return (
        f"{found['flops_fp32'] / 1e9:,.0f} GFLOP/s in fp32, {found['flops_bf16'] / 1e9:,.0f} in bf16, "
        f"{found['bytes_copied'] / 1e9:,.0f} GB/s copied"
    )


def summary(rows: dict[str, Any]) -> list[str]:
    """All targets in one table."""
    lines = ["| row | compared with | target | measured | |", "|---|---|---|---|---|"]
    for number, row in rows.items():
        for contest in row["contests"]:
            for target in contest["targets"]:
                verdict = "met" if target["is_met"] else "**missed**"
                wanted = f"{'≤' if target['is_most'] else '≥'} {target['wanted']:,g}"
                measured = shown(contest, target)
                lines.append(f"| {number} {contest['title']} | {target['what']} | {wanted} | {measured} | {verdict} |")
    return lines


def shown(contest: dict[str, Any], target: dict[str, Any]) -> str:
    """A measured value, with its range where it is a ratio."""
    for ratio in contest["ratios"]:
        if ratio["peer"] == target["what"] and not target["of_rate"]:
            return f"{ratio['median']:.2f}x [{ratio['least']:.2f}, {ratio['most']:.2f}]"
    return "not measured" if target["value"] is None else f"{target['value']:,.4g}"


def contest_lines(contest: dict[str, Any]) -> list[str]:
    """One contest: the sides with their speeds and ratios, or the measurements."""
    lines = [f"**{contest['title']}**", ""]
    if contest["sides"]:
        found = {ratio["peer"]: ratio for ratio in contest["ratios"]}
        lines += [f"| side | {contest['unit']} | speed of headswap relative to it |", "|---|---|---|"]
        for side in contest["sides"]:
            if side["failure"]:
                lines.append(f"| {side['name']} | did not run: {side['failure']} | |")
                continue
            ratio = found.get(side["name"])
            times = f"{ratio['median']:.2f}x [{ratio['least']:.2f}, {ratio['most']:.2f}]" if ratio else ""
            lines.append(f"| {side['name']} | {side['median']:,.0f} | {times} |")
        lines.append("")
    if contest["measures"]:
        lines += ["| measurement | |", "|---|---|"]
        lines += [f"| {name} | {value:,.4g} |" for name, value in contest["measures"].items()]
        lines.append("")
    lines += [f"Floor: {contest['floor']}.", ""] if contest["floor"] else []
    lines += [contest["note"], ""] if contest["note"] else []
    return lines[:-1]


if __name__ == "__main__":
    main()
