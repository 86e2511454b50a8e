"""Baselines of tags, pairs and answers on validation parts (docs/log.md).

    python benchmarks/task_baselines.py DATA atis sick stsb piaf_fr

DATA has a folder per set. ATIS (`tokens`, `tags`), SICK and STS-B (`text`, `text_pair`, `label`) have train and valid.
PIAF has no validation part: every fifth context of train, in alphabetical order, is held out. No test part is read.
Answers that are not at their place in the context are left out and counted.
"""

import gzip
import json
import time
from pathlib import Path
from typing import Any

from cyclopts import App

from headswap.data.config import ColumnSettings
from headswap.data.records import Answer, SpanExample
from headswap.registry import BASELINES
from headswap.tasks.choose import named_task

app = App(help=__doc__)
TASKS = {"atis": "tag", "sick": "classify", "stsb": "regress", "piaf_fr": "span"}
METRICS = ("f1", "exact_match", "accuracy", "macro_f1", "pearson", "spearman", "mse", "num_examples")


def read_piaf(folder: Path) -> tuple[list[SpanExample], list[SpanExample]]:
    """The questions of train that are fitted and those that are held out."""
    found, num_wrong = [], 0
    with gzip.open(folder / "train.jsonl.gz", "rt", encoding="utf-8") as file:
        for line, row in enumerate(map(json.loads, file), 1):
            texts, starts = row["answers"]["text"], row["answers"]["answer_start"]
            answers = tuple(Answer(text, start) for text, start in zip(texts, starts, strict=True))
            if any(row["context"][one.start : one.start + len(one.text)] != one.text for one in answers):
                num_wrong += 1
                continue
            found.append(SpanExample(row["question"], row["context"], answers, str(folder), line))
    print(f"{num_wrong} questions are left out: their answer is not at its place.")
    held = set(sorted({example.context for example in found})[::5])
    return [one for one in found if one.context not in held], [one for one in found if one.context in held]


def read_parts(data: Path, name: str) -> tuple[list[Any], list[Any]]:
    """Train and validation."""
    task = named_task(TASKS[name])
    if task.name == "span":
        return read_piaf(data / name)
    columns = ColumnSettings(text_pair_column=None if task.name == "tag" else "text_pair")
    ending = "jsonl.gz" if task.name == "tag" else "csv.gz"
    train, validation = (task.read(str(data / name / f"{part}.{ending}"), columns) for part in ("train", "valid"))
    return train, validation


@app.default
def main(data: Path, *sets: str) -> None:
    """Fit every baseline of these sets and print its metrics on validation and its CPU seconds."""
    for name in sets:
        train, validation = read_parts(data, name)
        print(f"{name}: {len(train):,} for training, {len(validation):,} for validation")
        baselines = BASELINES[TASKS[name]]
        for baseline in baselines:
            start = time.process_time()
            found = baselines.load(baseline)(train, validation)
            shown = {key: found[key] for key in METRICS if found.get(key) is not None}
            figures = ", ".join(f"{key} {value:.4g}" for key, value in shown.items())
            print(f"  {baseline}: {figures}; {time.process_time() - start:.0f} s")


if __name__ == "__main__":
    app()
