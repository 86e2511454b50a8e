"""Flags that several commands share, and how a settings model becomes flags."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from headswap.cli.help_tables import HIDDEN
from headswap.core.errors import SettingError
from headswap.core.settings import Settings
from headswap.registry import TrackerName


def section(title: str) -> Parameter:
    """The fields of a settings model become flags of the command, in one group of its help page."""
    return Parameter(name="*", group=Group(title))


def switch(text: str) -> Parameter:
    """A flag without a value and without an opposite."""
    return Parameter(help=text, negative=())


def refuse_hidden(verb: str, *sections: Settings | None) -> None:
    """Refuse the settings that no help page of the command shows: they would have no effect."""
    given = {name for part in sections if part is not None for name in part.model_fields_set}
    if unused := sorted(given & set(HIDDEN[verb])):
        raise SettingError(f"{', '.join(unused)}: no effect in headswap {verb}. Leave it out.")


Config = Parameter(help="Recipe: a TOML file with settings. Flags override its values.")


@dataclass(frozen=True)
class OutputFlags:
    """What a command prints."""

    json: Annotated[bool, switch("Print the result as JSON on standard output.")] = False
    quiet: Annotated[bool, switch("On standard error, print only warnings and errors.")] = False


@dataclass(frozen=True)
class TrainingFlags(OutputFlags):
    """How a training treats its folder."""

    config: Annotated[Path | None, Config] = None
    overwrite: Annotated[bool, switch("Replace the run in the folder.")] = False
    resume: Annotated[
        bool,
        switch("Resume the run in the folder. If there is none, a new run starts; a finished run is left as it is."),
    ] = False
    report_to: Annotated[
        tuple[TrackerName, ...],
        Parameter(
            help="Also write the metrics for tensorboard or mlflow (give the flag twice for both), as files in the run "
            "folder. The environment variable MLFLOW_TRACKING_URI sets another MLflow store."
        ),
    ] = ()


@dataclass(frozen=True)
class StudyFlags(OutputFlags):
    """How a study is run; none of these flags changes its results."""

    config: Annotated[Path | None, Config] = None
    jobs: Annotated[
        int | None,
        Parameter(
            help="Number of jobs (single trainings) that run in parallel. They share the CPU cores. Default: 1; on a "
            "machine with several GPUs, one job per GPU."
        ),
    ] = None
    executor: Annotated[
        str,
        Parameter(
            help="Where jobs run: local (processes of this machine), ray (a Ray cluster that is started on this "
            "machine), ray:ADDRESS (a running Ray cluster), slurm or slurm:PARTITION (a Slurm cluster). The machines "
            "of a cluster share the folder of the study; see docs/scale.md."
        ),
    ] = "local"
    max_minutes: Annotated[
        float | None,
        Parameter(
            help="Time limit of the whole study. Pre-training and adaptation without limits of their own together get "
            "40 % of it, in equal parts. Jobs that do not fit are left out; the same command runs them later."
        ),
    ] = None
    no_texts: Annotated[bool, switch("Show no texts of the data in the report.")] = False
    prepare_only: Annotated[
        bool,
        switch(
            "Train nothing: write the folder rows/ for another system, such as an LLM, whose answers can then be an "
            "arm (NAME=FILE in --arms; task classify). rows/test.jsonl has the test rows without labels, each with its "
            "id in the column row; the other files have the training rows of every budget and seed. The file of "
            "answers repeats these ids in its column row and has a label in its column prediction."
        ),
    ] = False
    overwrite: Annotated[
        bool,
        switch("Replace the study in the folder. The old study is removed only after all settings have been checked."),
    ] = False


Device = Parameter(help="Device: auto uses a CUDA GPU if there is one, otherwise the CPU.")
Fast = Parameter(help="auto uses fast kernels; off does not. Results differ only by rounding.")
FastGeneration = Parameter(
    help="auto uses fast kernels and, on GPUs, CUDA graphs; off uses neither. Results differ only by rounding."
)
Download = switch("Download a model (hf:NAME) that is not in the local cache of huggingface_hub.")
Output = section("Output")
Data = section("Data")
Tokenizer = section("Tokenizer")
Model = section("Model")
Masking = section("Masking")
Head = section("Head")
Adaptation = section("Trainable weights")
Training = section("Training")
Consistency = section("Unlabelled texts")
Machine = section("Machine")
