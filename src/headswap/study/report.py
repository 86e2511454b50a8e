"""The report of a study: one self-contained page, tables, figures and plain text, all from the same numbers.

Nothing in it is stored: it is computed from the run folders whenever it is asked for. The page needs no network.
"""

import csv
import io
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headswap import __version__
from headswap.core.errors import counted
from headswap.core.files import atomic_file, read_json, write_json
from headswap.core.settings import load_recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.study import findings as words
from headswap.study.chart_files import draw_figures
from headswap.study.chart_svg import legend, svg
from headswap.study.charts import METRIC_NAMES, NUM_COLOURS, Chart, make_charts
from headswap.study.results import analyse
from headswap.study.runs import Material

Values = dict[str, Any]
VERDICTS = {"better": "better", "worse": "WORSE", "none": "no", "no claim": "too few seeds"}
MOST_LEAK_EXAMPLES = 12


def tell(material: Material, *, with_texts: bool = True) -> Values:
    """The numbers, and what they say."""
    results = analyse(material, with_texts=with_texts)
    return {"headline": words.headline(results), "caveats": words.caveats(results), **results}


def write_report(material: Material, out: Path, *, with_texts: bool = True) -> Values:
    """Write report.html, report.md, results.csv, results.json and figures/ into a folder; returns the numbers."""
    results = tell(material, with_texts=with_texts)
    charts = make_charts(results)
    context = _context(material, results, charts)
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "results.json", results)
    _write(out / "results.csv", _csv(results))
    _write(out / "report.md", _render("report.md.j2", context))
    _write(out / "report.html", _render("report.html.j2", context))
    draw_figures(charts, out / "figures", title=context["title"])
    return results


def _write(path: Path, text: str) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _render(name: str, context: Mapping[str, Any]) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    is_page = name.endswith(".html.j2")
    environment = Environment(
        loader=PackageLoader("headswap.study"),
        autoescape=is_page,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=not is_page,
    )

    environment.filters["cell"] = _cell

    def figure(chart: Chart) -> Markup:
        keys = "".join(f"<span>{key}{Markup.escape(name)}</span>" for name, key in legend(chart))
        caption = Markup.escape(chart.title)
        return Markup(
            f'<figure><figcaption>{caption}</figcaption><div class="legend">{keys}</div>{svg(chart)}</figure>'
        )

    return environment.get_template(name).render(**context, figure=figure)


def _cell(name: str) -> str:
    """A name in a cell of a Markdown table, which `|` or the end of the line would end."""
    return " ".join(name.split()).replace("|", "\\|")


def _context(material: Material, results: Values, charts: list[Chart]) -> Values:
    metric = METRIC_NAMES[results["metric"]]
    by_cell = {(cell["arm"], cell["labels"]): cell for cell in results["cells"]}
    table = [
        {
            "arm": arm,
            "meaning": words.describe_arm(arm),
            "cells": [by_cell.get((arm, budget["labels"])) for budget in results["budgets"]],
        }
        for arm in results["arms"]
    ]
    told = words.arms_told(results)
    worth = [words.worth_sentence(row) for row in results["label_worth"] if row["arm"] in told]
    worth += [words.break_even_sentence(row) for row in results["break_even"] if row["arm"] in told]
    worth += [words.catch_up_sentence(row) for row in results["catch_up"] if row["arm"] in told]
    leaks = [found | {"from": row["from"], "to": row["to"]} for row in results["overlap"] for found in row["examples"]]
    undecided = [row for row in results["comparisons"] if row["verdict"] in ("none", "no claim")]
    return {
        "r": results,
        "version": __version__,
        "title": _title(material, results),
        "subtitle": _subtitle(results),
        "headline": results["headline"],
        "caveats": results["caveats"],
        "metric": metric,
        "table": table,
        "charts": {
            "main": [chart for chart in charts if chart.id in ("efficiency", "gain")],
            "epochs": [chart for chart in charts if chart.id.startswith("epochs-")],
            "base": [chart for chart in charts if chart.id.startswith("pretraining-")],
            "calibration": [chart for chart in charts if chart.id == "calibration"],
        },
        "num_comparisons": sum(row["p"] is not None for row in results["comparisons"]),
        "has_permutation": any(row["p_permutation"] is not None for row in results["comparisons"]),
        "verdicts": VERDICTS,
        "worth": worth,
        "worth_table": _worth_table(results),
        "num_colours": NUM_COLOURS,
        "open_questions": [words.comparison_sentence(row) for row in undecided],
        "leaks": leaks[:MOST_LEAK_EXAMPLES],
        "methods": _methods(material, results),
        "commands": commands(material),
        "versions": _versions(material),
        "missing": _missing(results),
        "p": _p,
        "seconds": words.seconds,
        "leak": words.leak_sentence,
    }


def _worth_table(results: Values) -> list[Values]:
    """Label worths of all arms, where there are more than sentences tell."""
    pays = {(row["arm"], row["labels"]): row for row in results["break_even"]}
    places = {(row["arm"], row["labels"]): row for row in results["label_worth"]}
    by_cell = {place: words.worth_cell(row, pays.get(place)) for place, row in places.items()}
    arms = list(dict.fromkeys(row["arm"] for row in results["label_worth"]))
    if set(arms) <= words.arms_told(results):
        return []
    return [
        {"arm": arm, "cells": [by_cell.get((arm, budget["labels"]), ("-", [])) for budget in results["budgets"]]}
        for arm in arms
    ]


def _title(material: Material, results: Values) -> str:
    if material.recipe is None or material.recipe.data.train is None:
        return "What the runs show"
    source = material.recipe.data.train
    name = Path(source).name.partition(".")[0] if Path(source).suffix else source
    folder = Path(source).parent.name
    return f"What did pre-training buy? {folder + '/' if folder and Path(source).suffix else ''}{name}"


def _subtitle(results: Values) -> str:
    budgets = ", ".join(f"{budget['labels']:,}" for budget in results["budgets"])
    return (
        f"{len(results['arms'])} arms, {budgets} labels, {counted(len(results['seeds']), 'seed')}, "
        f"{results['num_test']:,} test texts, {len(results['labels'])} classes."
    )


def _methods(material: Material, results: Values) -> list[str]:
    found = [
        "A budget of n labels holds those used for choosing: a fifth (at most 2,000) chooses the epoch, the rest is "
        "learnt from; under 200 labels the epochs are fixed and nothing is chosen. TF-IDF learns from all n.",
        "Label subsets are stratified and nested (a larger one holds the smaller), and the same for all arms at a seed."
        " A seed also changes initialisation and order. Test is scored once a run.",
        "Intervals over seeds are Student's t with n - 1 degrees of freedom, cut at 0 and 1; differences are paired by "
        "seed, and their spread is taken to be at least one test text. The bootstrap over test texts (2,000 draws) is "
        "another source of error and stands apart.",
        "TF-IDF: word 1-2-grams, sublinear, logistic regression, C chosen by cross-validation on its labels. With the "
        "budget all it sees the same labels at every seed, so it has no spread there.",
        "Seeds to show a difference: for the mean and spread seen here, with power 80 %, at .05 divided by the number "
        "of comparisons.",
    ]
    if paces := _paces(material):
        found.insert(0, f"Learning rates, which fit the start where none is given: {'; '.join(paces)}.")
    if material.recipe is not None:
        recipe = material.recipe
        rows = material.prepared.get("num_rows", {})
        corpus = ", ".join(Path(source).name or source for source in recipe.study.corpus) or "none"
        documents = f" ({rows['corpus']:,} documents)" if "corpus" in rows else ""
        sizes = ", ".join(f"{rows[name]:,} {name}" for name in ("train", "validation", "test") if name in rows)
        found.insert(0, f"Corpus: {corpus}{documents}. Labelled: {sizes}. Leaks: {recipe.study.on_leak}.")
    return found


def _paces(material: Material) -> list[str]:
    """How fast each fine-tuned arm learns, as its runs recorded it."""
    found = []
    for arm in material.arms:
        runs = [run for run in material.runs if run.arm == arm and (run.folder / "recipe.toml").exists()]
        if not runs:
            continue
        recipes = {run.labels: load_recipe(FinetuneRecipe, run.folder / "recipe.toml") for run in runs}
        recipe = recipes[max(recipes)]
        told = f"{arm} {recipe.training.learning_rate:g}"
        if (decay := recipe.adaptation.layer_lr_decay) not in (None, 1.0):
            told += f", each layer {decay:g} of the one above it"
        if (factor := recipe.adaptation.head_lr_factor) not in (None, 1.0):
            told += f", the head {factor:g} times"
        if gradual := sorted(labels for labels, one in recipes.items() if one.adaptation.unfreeze == "gradual"):
            told += ", one more layer moving each epoch"
            told += "" if len(gradual) == len(recipes) else f" (up to {gradual[-1]:,} labels)"
        found.append(told)
    return found


def commands(material: Material) -> str:
    if material.out is None:
        return shlex.join(["headswap", "compare", *(str(run.folder) for run in material.runs if run.folder.exists())])
    lines = [
        f"headswap study --config {shlex.quote(str(material.out / 'study.toml'))} --out AGAIN",
        f"headswap report {shlex.quote(str(material.out))}",
    ]
    bases = {base.folder.name for found in material.bases.values() for base in found}
    for name in sorted(bases):
        lines.append(f"headswap pretrain --config {shlex.quote(str(material.out))}/runs/{name}/recipe.toml --out AGAIN")
    tuned = next((run for run in material.runs if (run.folder / "recipe.toml").exists()), None)
    if tuned is not None:
        where = f"{shlex.quote(str(material.out))}/runs/{tuned.folder.name}/recipe.toml"
        lines.append(f"headswap finetune --config {where} --out AGAIN    # any run of it")
    return "\n".join(lines)


def _versions(material: Material) -> str:
    files = [run.folder / "environment.json" for run in reversed(material.runs)]
    environments = [read_json(file) for file in files if file.exists()]
    if not environments:
        return f"headswap {__version__}"
    found = environments[0]
    versions = ", ".join(f"{name} {value}" for name, value in found["versions"].items() if value)
    where = found["processor"] if found["device"] == "cpu" else found["device"]
    precisions = " or ".join(sorted({one["precision"] for one in environments}))
    threads = f"{found['threads']} thread{'' if found['threads'] == 1 else 's'} a fine-tuning"
    return f"{versions}, Python {found['python']}; {where}, {precisions}, {threads}."


def _missing(results: Values) -> str:
    return ", ".join(f"{cell['arm']} {cell['labels']:,} seed {cell['seed']}" for cell in results["missing"][:20])


def _csv(results: Values) -> str:
    """One line a run: arm, labels, seed, score."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["arm", "labels", "seed", results["metric"]])
    for cell in results["cells"]:
        for seed, value in cell["values"].items():
            writer.writerow([cell["arm"], cell["labels"], seed, f"{value:.6f}"])
    return buffer.getvalue()


def _p(value: float) -> str:
    return "<.001" if value < 0.001 else f"{value:.3f}".lstrip("0") if value < 1 else "1"
