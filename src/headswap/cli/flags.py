"""Flags that several verbs share, and how a settings model becomes flags."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter


def section(title: str) -> Parameter:
    """The fields of a settings model become flags of the verb, in one group of its help page."""
    return Parameter(name="*", group=Group(title))


def switch(text: str) -> Parameter:
    """A flag without a value and without an opposite."""
    return Parameter(help=text, negative=())


@dataclass(frozen=True)
class OutputFlags:
    """What a verb prints."""

    json: Annotated[bool, switch("Print the result as JSON on standard output.")] = False
    quiet: Annotated[bool, switch("Print only warnings and errors on standard error.")] = False


@dataclass(frozen=True)
class TrainingFlags(OutputFlags):
    """How a training verb treats its folder."""

    config: Annotated[Path | None, Parameter(help="Recipe (TOML) with settings; flags override it.")] = None
    overwrite: Annotated[bool, switch("Replace the run in the folder.")] = False
    resume: Annotated[
        bool, switch("Resume the run in the folder. Starts a new run if there is none; does nothing if it is finished.")
    ] = False


@dataclass(frozen=True)
class StudyFlags(OutputFlags):
    """How a study is run; none of these flags changes its results."""

    config: Annotated[Path | None, Parameter(help="Recipe (TOML) with settings; flags override it.")] = None
    jobs: Annotated[int, Parameter(help="Number of jobs that run in parallel; they share the CPU cores.")] = 1
    max_minutes: Annotated[
        float | None,
        Parameter(help="Run only the jobs that fit into this time; the same command runs the rest later."),
    ] = None
    no_texts: Annotated[bool, switch("Leave all texts out of the report.")] = False
    overwrite: Annotated[bool, switch("Replace the study in the folder, once all settings are checked.")] = False


Device = Parameter(help="Device: auto uses CUDA if available.")
Fast = Parameter(help="off disables the fast kernels and CUDA graphs; results differ only by rounding.")
Output = section("Output")
Data = section("Data")
Tokenizer = section("Tokenizer")
Model = section("Model")
Masking = section("Masking")
Head = section("Head")
Adaptation = section("Adaptation")
Training = section("Training")
Machine = section("Machine")
