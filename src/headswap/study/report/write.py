"""Write the report of a study: a self-contained page, Markdown, tables and figures, all from the same results.

Nothing in the report is stored elsewhere: it is computed from the run folders each time. The page needs no network.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headswap import __version__
from headswap.core.document_text import csv_cell, markdown, markdown_code
from headswap.core.errors import InputError, SettingError, counted, listed
from headswap.core.files import atomic_file, read_json, write_json
from headswap.core.outputs import check_apart, check_writable
from headswap.data.tagged import PREFIXES
from headswap.metrics.abstention import LIMITS
from headswap.study.report import findings
from headswap.study.report.caveats import caveats, overlap_sentence
from headswap.study.report.chart_files import draw_figures
from headswap.study.report.chart_svg import legend, svg
from headswap.study.report.charts import METRIC_NAMES, NUM_COLOURS, Chart, make_charts
from headswap.study.report.methods import commands, methods, versions
from headswap.study.report.part_charts import PART_CHARTS, part_charts, shown_parts
from headswap.study.report.what_next import what_next
from headswap.study.setup.answer_file import SINGLE
from headswap.study.setup.arm_bases import is_from_box
from headswap.study.setup.folder import FILES, RECIPE
from headswap.study.statistics.analysis import analyse
from headswap.study.statistics.groups import counted_groups
from headswap.study.statistics.results import NO_BUDGET, StudyResults
from headswap.study.statistics.runs import StudyRuns
from headswap.study.statistics.score_results import Comparison
from headswap.study.statistics.significance import ALPHA
from headswap.tasks.choose import named_task

VERDICTS = {"better": "better", "worse": "worse", "none": "not significant", "no claim": "not tested"}
OWN_NAMES = {*FILES, "figures"}
"""What a comparison writes into its folder."""
MOST_OVERLAP_EXAMPLES = 12
MOST_MISSING = 20


@dataclass(frozen=True)
class StudyReport:
    """The results of a study and the sentences about them."""

    headline: list[str]
    caveats: list[str]
    results: StudyResults
    next: list[str]
    """What to try next, with the evidence."""

    def as_json(self) -> dict[str, Any]:
        """The content of `results.json`."""
        return {"headline": self.headline, "caveats": self.caveats, "what_next": self.next, **self.results.as_json()}


def make_report(study: StudyRuns, *, with_texts: bool = True) -> StudyReport:
    """Compute the results of a study and state them; without `with_texts` they hold no text of the data."""
    results = analyse(study, with_texts=with_texts)
    return StudyReport(findings.headline(results), caveats(results), results, what_next(results))


def check_report_folder(out: Path, reads: Iterable[str | Path]) -> None:
    """Raise if a comparison cannot be written into a folder, or would replace files that are not those of one."""
    if out.is_file():
        raise SettingError(f"--out {out} is a file. Give a folder.")
    names = {entry.name for entry in out.iterdir()} if out.is_dir() else set()
    if RECIPE in names:
        raise SettingError(f"--out {out} holds a study, whose report would be replaced. Choose another folder.")
    check_apart(out, reads)
    if names & OWN_NAMES and not _holds_report(out):
        raise SettingError(
            f"--out {out} holds {listed(sorted(names & OWN_NAMES))}, which no comparison wrote. Choose another folder."
        )
    check_writable(out)


def _holds_report(folder: Path) -> bool:
    """Whether the files of a folder are those of an earlier comparison."""
    try:
        return {"cells", "comparisons"} <= set(read_json(folder / "results.json"))
    except (InputError, OSError, TypeError):
        return False


def write_report(study: StudyRuns, out: Path, *, with_texts: bool = True) -> StudyReport:
    """Write report.html, report.md, results.csv, results.json and figures/ into a folder."""
    report = make_report(study, with_texts=with_texts)
    charts = [*make_charts(report.results), *part_charts(report.results)]
    context = _context(study, report, charts)
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "results.json", report.as_json())
    _write(out / "results.csv", _csv(report.results))
    _write(out / "report.md", _render("report.md.j2", context))
    _write(out / "report.html", _render("report.html.j2", context))
    draw_figures(charts, out / "figures", title=context["title"], metric=report.results.metric)
    return report


def _write(path: Path, text: str) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _render(name: str, context: Mapping[str, Any]) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    is_page = name.endswith(".html.j2")
    environment = Environment(
        loader=PackageLoader("headswap.study.report"),
        autoescape=is_page,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=not is_page,
        finalize=None if is_page else _in_markdown,
    )
    environment.filters["percent"] = _percent
    environment.filters["code"] = lambda text: Markup(markdown_code(text))

    def figure(chart: Chart) -> Markup:
        keys = "".join(f"<span>{key}{Markup.escape(name)}</span>" for name, key in legend(chart))
        caption = Markup.escape(chart.title)
        return Markup(
            f'<figure><figcaption>{caption}</figcaption><div class="legend">{keys}</div>{svg(chart)}</figure>'
        )

    return environment.get_template(name).render(**context, figure=figure)


def _in_markdown(value: Any) -> Any:
    """A value of a Markdown template; texts are escaped unless the template marks them as safe."""
    return markdown(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _context(study: StudyRuns, report: StudyReport, charts: list[Chart]) -> dict[str, Any]:
    """The variables of the templates."""
    results = report.results
    undecided = [row for row in results.comparisons if row.verdict in ("none", "no claim")]
    examples = [(row, found) for row in results.overlap for found in row.examples]
    return {
        "r": results,
        "version": __version__,
        "title": _title(study),
        "subtitle": _subtitle(results),
        "headline": report.headline,
        "caveats": report.caveats,
        "what_next": report.next,
        "metric": METRIC_NAMES[results.metric],
        "table": _score_table(results),
        "charts": {
            "main": [chart for chart in charts if chart.id in ("efficiency", "gain")],
            "epochs": [chart for chart in charts if chart.id.startswith("epochs-")],
            "base": [chart for chart in charts if chart.id.startswith("pretraining-")],
            "calibration": [chart for chart in charts if chart.id == "calibration"],
            "parts": [chart for chart in charts if chart.id in PART_CHARTS],
        },
        "limits": LIMITS,
        "unit": results.unit,
        "groups": counted_groups(study),
        "parts": shown_parts(results),
        "parts_left_out": len(results.errors.slices) - len(shown_parts(results)) if results.errors else 0,
        "words": results.words,
        "parts_metric": _upper(METRIC_NAMES[results.errors.metric]) if results.errors else "",
        "measures": [METRIC_NAMES[name] for name in results.cells[0].measures],
        "without_scores": _without_scores(results),
        "planned": _planned(results),
        "seeds_needed": _seeds_needed,
        "has_seeds_needed": any(row.verdict == "none" for row in results.comparisons),
        "verdicts": VERDICTS,
        "worth": _worth_sentences(results),
        "worth_table": _worth_table(results),
        "num_colours": NUM_COLOURS,
        "undecided": [findings.comparison_sentence(row, results.words) for row in undecided],
        "overlap_examples": examples[:MOST_OVERLAP_EXAMPLES],
        "methods": methods(study),
        "commands": commands(study),
        "versions": versions(study),
        "missing": _missing(results),
        "p": _p,
        "seconds": findings.seconds,
        "overlap_sentence": overlap_sentence,
    }


def _planned(results: StudyResults) -> list[str]:
    """Which tests were planned, and the error rate of all of them together."""
    found = []
    if results.overall is not None and results.overall.p is not None:
        found.append(f"{results.primary} against scratch on average over all budgets (one test)")
    for family, other in (("scratch", "scratch"), ("baseline", "the best baseline")):
        if rows := [row for row in results.comparisons if row.family == family and row.p is not None]:
            tests = "one test" if len(rows) == 1 else f"{len(rows)} tests, Holm-corrected"
            found.append(f"{results.primary} against {other} per budget ({tests})")
    sentences = []
    if found:
        sentences.append(
            f"Planned tests: {'; '.join(found)}. The probability of at least one false positive among the planned "
            f"tests is at most {results.error_rate:.2f}."
        )
    if others := sum(row.family == "exploratory" and row.p is not None for row in results.comparisons):
        which, probability = ("All other", "With them, the") if found else ("All", "The")
        sentences.append(
            f"{which} comparisons are exploratory; they are Holm-corrected as one family of {others:,}. {probability} "
            "probability of at least one false positive in the whole report is at most "
            f"{results.error_rate + ALPHA:.2f}. Confirm an exploratory result with new seeds and new test "
            f"{results.unit}s."
        )
    return sentences


def _seeds_needed(row: Comparison, unit: str) -> str:
    """The range of seeds or bases that would show a difference, as a table cell."""
    if (number := findings.needed_range(row)) is None:
        return f"more test {unit}s"
    return f"{number} bases" if row.num_bases else number


def _score_table(results: StudyResults) -> list[dict[str, Any]]:
    """One row per arm with its cells in the order of the budgets; None where nothing was run."""
    by_cell = {(cell.arm, cell.labels): cell for cell in results.cells}
    return [
        {
            "arm": arm,
            "meaning": _meaning(arm, results),
            "cells": [by_cell.get((arm, budget.labels)) for budget in results.budgets],
        }
        for arm in results.arms
    ]


def _meaning(arm: str, results: StudyResults) -> str:
    """An arm in a few words."""
    if (other := results.external.get(arm)) is None:
        return findings.describe_arm(arm, results.task, results.installed.get(arm))
    return f"answers of another system ({other.file}){', one per text' if other.has_one_answer else ''}"


def _without_scores(results: StudyResults) -> list[str]:
    """One sentence about the arms without log loss and calibration error, if there are any."""
    reasons: dict[str, list[str]] = {}
    for cell in results.cells:
        if cell.without_scores and cell.arm not in reasons.setdefault(cell.without_scores, []):
            reasons[cell.without_scores].append(cell.arm)
    return [f"No values for {findings.enumerated(arms)}: {why}." for why, arms in reasons.items()]


def _worth_sentences(results: StudyResults) -> list[str]:
    arms, words = findings.arms_in_sentences(results), results.words
    return [
        *(findings.worth_sentence(row, words) for row in results.label_worth if row.arm in arms and row.largest > 1),
        *(findings.break_even_sentence(row, words) for row in results.break_even if row.arm in arms),
        *(
            findings.catch_up_sentence(row, words)
            for row in results.catch_up
            if row.arm in arms | {results.primary} or is_from_box(row.arm)
        ),
    ]


def _worth_table(results: StudyResults) -> list[dict[str, Any]]:
    """The label worth of all arms; empty if sentences state all of it."""
    break_even = {(row.arm, row.other, row.labels): row for row in results.break_even}
    by_cell = {
        (row.arm, row.other, row.labels): findings.worth_cell(
            row, break_even.get((row.arm, row.other, row.labels)), results.words
        )
        for row in results.label_worth
    }
    pairs = list(dict.fromkeys((row.arm, row.other) for row in results.label_worth))
    if {arm for arm, _ in pairs} <= findings.arms_in_sentences(results):
        return []
    return [
        {
            "arm": f"{arm}, in {results.words.many} of {other}",
            "cells": [by_cell.get((arm, other, budget.labels), ("not shown", [])) for budget in results.budgets],
        }
        for arm, other in pairs
    ]


def _title(study: StudyRuns) -> str:
    if study.recipe is None or study.recipe.data.train is None:
        return "Comparison of runs"
    source = study.recipe.data.train
    name = Path(source).name.partition(".")[0] if Path(source).suffix else source
    folder = Path(source).parent.name
    return f"What does pre-training gain? {folder + '/' if folder and Path(source).suffix else ''}{name}"


def _subtitle(results: StudyResults) -> str:
    known = [f"{budget.labels:,}" for budget in results.budgets if budget.labels != NO_BUDGET]
    budgets = f" {findings.enumerated(known)} {results.words.many};" if known else ""
    seeds = f" {counted(len(results.seeds), 'seed')};" if results.seeds else " one answer per text;"
    return (
        f"{counted(len(results.arms), 'arm')};{budgets}{seeds} "
        f"{results.num_test:,} test {results.unit}s{_num_labels(results)}."
    )


def _num_labels(results: StudyResults) -> str:
    """The number of classes, labels, tags or entity types; nothing where the predictions are no labels."""
    if types := {label[2:] for label in results.labels if results.task == "tag" and label.startswith(PREFIXES)}:
        return f"; {counted(len(types), 'entity type')}"
    noun = named_task(results.task).label_noun
    plural = "classes" if noun == "class" else f"{noun}s"
    return f"; {len(results.labels)} {plural}" if results.labels else ""


def _upper(name: str) -> str:
    return f"{name[0].upper()}{name[1:]}"


def _missing(results: StudyResults) -> str:
    return ", ".join(f"{run.arm} {run.labels:,} seed {run.seed}" for run in results.missing[:MOST_MISSING])


def _csv(results: StudyResults) -> str:
    """One line per run: arm, labels, seed (empty for one answer per text), score."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["arm", "labels", "seed", results.metric])
    for cell in results.cells:
        for seed, value in cell.values.items():
            shown = "" if seed == SINGLE else seed
            writer.writerow([csv_cell(cell.arm), cell.labels, shown, f"{value:.6f}"])
    return buffer.getvalue()


def _percent(share: float) -> str:
    """A share without decimals; one that is not 0 is not shown as 0."""
    return "<1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def _p(value: float) -> str:
    return "<.001" if value < 0.001 else f"{value:.3f}".lstrip("0") if value < 1 else "1"
