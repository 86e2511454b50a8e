"""`headswap study`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from headswap.batches.config import MaskingSettings
from headswap.cli.flags import Adaptation, Data, Head, Machine, Masking, Model, Output, StudyFlags, Tokenizer, section
from headswap.finetuning.config import AdaptationSettings, HeadSettings
from headswap.model.shape import DEFAULT_PRESET, ModelSettings, Preset
from headswap.study.setup.config import StudyAdapt, StudyData, StudyFinetune, StudyPretrain, StudySettings
from headswap.tokens.config import TokenizerSettings
from headswap.training.config import MachineSettings

if TYPE_CHECKING:
    from headswap.study.statistics.results import StudyResults

Pretraining = Parameter(name="pretrain", group=Group("Pre-training"))
Adapting = Parameter(name="adapt", group=Group("Adaptation"))
Finetuning = Parameter(name="finetune", group=Group("Fine-tuning"))


class StudiedShape(ModelSettings):
    """The shape of the models that a study trains from random weights."""

    preset: Preset = DEFAULT_PRESET
    """Shape of the bases that the study pre-trains: lab (4 layers of width 200), small (6 of width 256), modern (6 of
    width 512), llama (as modern, with RMSNorm), gpt2-small or bert-base (12 of width 768). The arm scratch has 2 layers
    of width 128; if --preset or another option of the shape is given, it has the same shape as the bases. Default:
    small."""


class StudyTokenizer(TokenizerSettings):
    """The tokenizer of the models that a study trains from random weights."""

    tokenizer: str | None = None
    """An existing tokenizer for scratch and for the bases that the study pre-trains: a tokenizer.json, a bundle or run
    folder, an installed base (box:NAME), a token store, or a dict.txt (sentencepiece pieces, one per line). Default:
    that of the token store if the corpus is one; otherwise a new one is trained on the corpus, or without a corpus on
    the training texts of the run."""


def study(
    dataset: str | None = None,
    /,
    *,
    out: Path,
    flags: Annotated[StudyFlags, Output] = StudyFlags(),
    study: Annotated[StudySettings | None, section("Study")] = None,
    data: Annotated[StudyData | None, Data] = None,
    tokenizer: Annotated[StudyTokenizer | None, Tokenizer] = None,
    model: Annotated[StudiedShape | None, Model] = None,
    head: Annotated[HeadSettings | None, Head] = None,
    adaptation: Annotated[AdaptationSettings | None, Adaptation] = None,
    masking: Annotated[MaskingSettings | None, Masking] = None,
    pretrain: Annotated[StudyPretrain | None, Pretraining] = None,
    adapt: Annotated[StudyAdapt | None, Adapting] = None,
    finetune: Annotated[StudyFinetune | None, Finetuning] = None,
    machine: Annotated[MachineSettings | None, Machine] = None,
) -> int:
    """Compare models that are trained on different numbers of labels, and report what pre-training gains.

    A model in a study is called an arm. A number of labels is called a budget. Each arm is trained with several seeds
    at each budget and scored on the same test set. The report has the scores with intervals. It compares each arm with
    scratch and with the best baseline, and states which differences are statistically significant. All arms have the
    same task, on single texts or pairs.

    The same command resumes a study that was stopped. Options of the groups Pre-training, Adaptation and Fine-tuning
    have a prefix, as in --pretrain.max-minutes 10 or --finetune.num-train-epochs 5. All others have none, for example
    --trainable and --pooling. The group Trainable weights applies to arms with a base, not to scratch. --dropout is for
    pre-training, --finetune.dropout for fine-tuning.

    Example: headswap study --corpus reviews.txt --train train.csv --test test.csv --out studies/reviews

    Parameters
    ----------
    dataset
        Named data set that has a corpus, a training set and a test set, such as movies (see headswap datasets). It
        takes the place of --corpus, --train and --test.
    out
        Folder of the study.
    """
    sections = {
        "study": study,
        "data": data,
        "tokenizer": tokenizer,
        "model": model,
        "head": head,
        "adaptation": adaptation,
        "masking": masking,
        "pretrain": pretrain,
        "adapt": adapt,
        "finetune": finetune,
        "machine": machine,
    }
    values = {name: part.model_dump(exclude_unset=True) for name, part in sections.items() if part is not None}
    if dataset is not None:
        values["study"] = {"corpus": (dataset,)} | values.get("study", {})
        values["data"] = {"train": dataset} | values.get("data", {})
    return run_study_verb(out, flags, values)


def run_study_verb(
    out: Path,
    flags: StudyFlags,
    sections: dict[str, Any],
    *,
    closing: "Callable[[StudyResults], str] | None" = None,
) -> int:
    """Run a study, write and print its report; the exit code is 0 if all jobs were done.

    `closing` makes the last sentence that is printed.
    """
    from headswap.cli.display import print_json, start_messages
    from headswap.cli.study_display import JobDisplay, print_results
    from headswap.core.errors import RunError, counted
    from headswap.study.report.write import write_report
    from headswap.study.run import run_study
    from headswap.study.statistics.runs import read_study

    console = start_messages(quiet=flags.quiet)
    if flags.prepare_only:
        return _export(out, flags, sections)
    display = JobDisplay(console, quiet=flags.quiet)
    try:
        done = run_study(
            out=out,
            config=flags.config,
            sections=sections,
            jobs=flags.jobs,
            max_minutes=flags.max_minutes,
            overwrite=flags.overwrite,
            watcher=display,
            on_preflight=display.on_preflight,
            executor=flags.executor,
        )
    finally:
        display.close()
    outcome = done.outcome
    names = [job.name for job in outcome.left_out]
    if names:
        why = "Stopped" if outcome.was_stopped else "Out of time"
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        console.print(f"{why}. Not finished: {shown}. The same command runs the rest.")
    if not any(done.plan.jobs[entry.job].is_done for entry in done.plan.entries):
        if outcome.was_stopped:
            return 130
        if outcome.failed:
            raise RunError(f"All jobs failed, so there is nothing to report. See {out}/logs.")
        raise RunError("No job fits into --max-minutes, so there is nothing to report. Raise --max-minutes.")
    report = write_report(read_study(out), out, with_texts=not flags.no_texts)
    results = report.as_json() | ({} if closing is None else {"closing": closing(report.results)})
    if flags.json:
        left = {"left_out": names, "failed": {done.plan.jobs[id].name: why for id, why in outcome.failed.items()}}
        print_json({"out": str(out), **left, **results})
    else:
        print_results(results, out=out)
    if outcome.was_stopped:
        return 130
    if outcome.failed:
        console.print(f"{counted(len(outcome.failed), 'job')} failed. The same command tries them again.")
        return 1
    return 0


def _export(out: Path, flags: StudyFlags, sections: dict[str, Any]) -> int:
    """Write the rows of a study for another system."""
    from headswap.cli.display import print_json, print_text
    from headswap.study.row_export import export_rows

    rows = export_rows(out=out, config=flags.config, sections=sections, overwrite=flags.overwrite)
    if flags.json:
        print_json({"out": str(out), "rows": str(rows.folder), **rows.content})
    else:
        print_text(rows.sentence())
    return 0
