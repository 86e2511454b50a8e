"""One job of a study: `python -m headswap.study.jobs.job JOB.json` runs it alone, a worker runs many (executors/).

A failed job does not affect the others. When the process of the study ends, the job's standard input is closed; the job
then saves and stops, and can be resumed. A lock keeps two processes out of one folder. A folder with damaged outputs is
removed and the job is run again; a record in `logs/` states what was wrong.
"""

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headswap.core.atomic_folder import discard_folder
from headswap.core.errors import HeadswapError
from headswap.core.files import remove_folder, write_json
from headswap.core.settings import load_recipe
from headswap.study.jobs.damage_records import write_record
from headswap.study.jobs.job_outputs import write_checksums
from headswap.study.jobs.planned_jobs import Job
from headswap.study.setup.row_files import check_inputs

log = logging.getLogger("headswap")


def main(job_file: str) -> int:
    """Run the job that a file describes; exit codes are those of the command line."""
    start_log()
    threading.Thread(target=_stop_with_study, daemon=True).start()
    return run_file(job_file)


def start_log() -> None:
    """Write the messages of jobs to standard error."""
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)


def run_file(job_file: str) -> int:
    """Run the job that a file describes in this process, also in one that has run others; return its exit code."""
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    try:
        with _locked(Path(job_file).with_suffix(".lock")):
            run_job(job)
    except HeadswapError as problem:
        log.error("%s", problem)
        return problem.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


def run_job(content: Mapping[str, Any]) -> None:
    """Run a job unless it is done, from the start if its folder is damaged; its checksums are written last."""
    job = Job(**{name: value for name, value in content.items() if name in Job.__dataclass_fields__})
    folder = Path(job.folder)
    if job.is_done:
        return
    if why := job.damage:
        log.warning("%s was found damaged (%s) and is run again.", folder, why)
        write_record(folder, why)
        discard_folder(folder)
    check_inputs(job.sections, job.digests)
    JOBS[job.kind](folder, content)
    write_checksums(folder)


def _stop_with_study() -> None:
    """Wait until the study closes standard input, then ask this process to stop."""
    with suppress(OSError):
        while os.read(0, 1):  # sys.stdin would hold its lock when the process ends
            pass
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Wait until no other process runs this job, such as one whose study was just killed."""
    try:
        import fcntl
    except ModuleNotFoundError:  # on Windows the jobs of a killed study are killed too
        yield
        return
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _tokenizer(folder: Path, job: Mapping[str, Any]) -> None:
    from headswap.data.config import ReadSettings
    from headswap.tokens.cache import cached_tokenizer
    from headswap.tokens.config import TokenizerSettings

    start = time.perf_counter()
    reading = {name: value for name, value in job["sections"]["corpus"].items() if name != "corpus"}
    settings = TokenizerSettings(**job["sections"]["tokenizer"])
    tokenizer = cached_tokenizer(job["sections"]["corpus"]["corpus"], ReadSettings(**reading), settings)
    tokenizer.save(folder / "tokenizer.json")
    seconds = time.perf_counter() - start
    write_json(
        folder / "result.json",
        {"verb": "tokenizer", "vocab_size": tokenizer.vocab_size, "fingerprint": tokenizer.fingerprint,
         "seconds": seconds},
    )  # fmt: skip


def _pretrain(folder: Path, job: Mapping[str, Any]) -> None:
    from headswap.pretraining.pretrain import pretrain

    pretrain(out=folder, sections=job["sections"], resume=True)
    remove_folder(folder / "checkpoints")  # a finished job is not resumed


def _adapt(folder: Path, job: Mapping[str, Any]) -> None:
    from headswap.pretraining.pretrain import adapt

    adapt(out=folder, sections=job["sections"], resume=True)
    remove_folder(folder / "checkpoints")


def _finetune(folder: Path, job: Mapping[str, Any]) -> None:
    from headswap.finetuning.finetune import finetune
    from headswap.study.jobs.trials import finetune_with_trials

    is_fresh = job.get("reloads_in_fresh_process", True)
    if factors := job.get("trials"):
        finetune_with_trials(folder, job["sections"], factors, reloads_in_fresh_process=is_fresh)
    else:
        finetune(
            out=folder,
            sections=job["sections"],
            resume=True,
            with_baselines=False,
            reloads_in_fresh_process=is_fresh,
        )
    remove_folder(folder / "checkpoints")
    if job.get("keep") == "results":
        discard_folder(folder / "bundle")


def _baseline(folder: Path, job: Mapping[str, Any]) -> None:
    """Write the predictions of a baseline on the same rows, as a fine-tuning run does."""
    from headswap.baselines.lsa_space import TextSpace
    from headswap.data.records import pair_as_text
    from headswap.finetuning.config import FinetuneRecipe
    from headswap.finetuning.splits import read_splits
    from headswap.registry import PREDICTIONS
    from headswap.study.setup.arms import baselines_of

    start = time.perf_counter()
    sections = dict(job["sections"])
    place = sections.pop("space", None)
    space = TextSpace.load(Path(place["folder"])) if place else None
    recipe = load_recipe(FinetuneRecipe, None, sections)
    splits = read_splits(recipe)
    train = [*splits.train, *splits.validation]  # no epoch is selected, so all labels are for training
    metric = splits.task.metric(recipe.training)
    baseline = baselines_of(splits.task.name).load(job["arm"])
    read = (train, splits.test) if baseline.reads_pairs else (map(pair_as_text, part) for part in (train, splits.test))
    outputs, chosen = baseline.fit(*map(list, read), splits.labels, metric, space=space)
    if space is not None:
        chosen |= {"space": space.fingerprint}
    PREDICTIONS.load(splits.task.prediction_kind or "").of(outputs, splits.test, splits.labels).save(folder)
    write_json(folder / "data.json", splits.checksums())
    result = {"verb": "baseline", "arm": job["arm"], **chosen, "num_labels": len(train)}
    write_json(folder / "result.json", result | {"seconds": time.perf_counter() - start})


def _space(folder: Path, job: Mapping[str, Any]) -> None:
    """Fit a space of texts on the corpus; it has no labels and no test texts."""
    from headswap.baselines.lsa_space import TextSpace
    from headswap.data.config import ReadSettings
    from headswap.data.documents import read_documents

    start = time.perf_counter()
    reading = {name: value for name, value in job["sections"]["corpus"].items() if name != "corpus"}
    documents = read_documents(job["sections"]["corpus"]["corpus"], ReadSettings(**reading))
    space, facts = TextSpace.fit(document.text for document in documents)
    space.save(folder)
    result = {"verb": "space", **facts, "fingerprint": space.fingerprint, "seconds": time.perf_counter() - start}
    write_json(folder / "result.json", result)


def _sample(folder: Path, job: Mapping[str, Any]) -> None:
    from headswap.study.setup.unlabelled_sample import write_sample

    write_sample(folder, job["sections"])


def _embed(folder: Path, job: Mapping[str, Any]) -> None:
    from headswap.study.jobs.embeddings import embed_rows

    embed_rows(folder, job["sections"])


def _linear(folder: Path, job: Mapping[str, Any]) -> None:
    from headswap.study.jobs.embeddings import fit_linear

    fit_linear(folder, job["arm"], job["sections"])


def _probe(folder: Path, job: Mapping[str, Any]) -> None:
    from headswap.study.jobs.probe import measure

    write_json(folder / "result.json", measure(job["sections"]))


JOBS = {
    "tokenizer": _tokenizer, "space": _space, "pretrain": _pretrain, "adapt": _adapt, "finetune": _finetune,
    "baseline": _baseline, "probe": _probe, "sample": _sample, "embed": _embed, "linear": _linear,
}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
