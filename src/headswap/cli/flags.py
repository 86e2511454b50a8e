"""Flags that several verbs share, and how a settings model becomes flags."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter


def section(title: str) -> Parameter:
    """Lays the fields of a settings model out as flags of the verb, under a title of their own in its help."""
    return Parameter(name="*", group=Group(title, sort_key=title != "Output"))


def switch(text: str) -> Parameter:
    """A flag that is on when given, with no opposite."""
    return Parameter(help=text, negative=())


@dataclass(frozen=True)
class OutputFlags:
    """What a verb says and how."""

    json: Annotated[bool, switch("Print the result as JSON on standard output.")] = False
    quiet: Annotated[bool, switch("Say nothing but warnings; what goes to standard output stays.")] = False


@dataclass(frozen=True)
class TrainingFlags(OutputFlags):
    """How a training verb treats its folder."""

    config: Annotated[Path | None, Parameter(help="A recipe (TOML) to start from; flags win over it.")] = None
    overwrite: Annotated[bool, switch("Replace the run that is in the folder.")] = False
    resume: Annotated[
        bool,
        switch("Go on with the run in the folder; start afresh where there is none, do nothing where it is finished."),
    ] = False


@dataclass(frozen=True)
class StudyFlags(OutputFlags):
    """How a study is run; none of it changes what is found."""

    config: Annotated[Path | None, Parameter(help="A recipe (TOML) to start from; flags win over it.")] = None
    jobs: Annotated[int, Parameter(help="Jobs at a time; each gets its part of the cores.")] = 1
    max_minutes: Annotated[
        float | None,
        Parameter(help="Do what fits into this time and say what was left out; the same command goes on later."),
    ] = None
    no_texts: Annotated[bool, switch("Leave all texts out of the report.")] = False
    overwrite: Annotated[bool, switch("Replace the study in the folder, after all checks.")] = False


Device = Parameter(help="Where to compute: auto takes a CUDA device if there is one.")
Fast = Parameter(help="off computes plainly, without fast kernels and recordings; the same but for rounding.")
Output = section("Output")
Reading = section("Reading")
Tokens = section("Tokenizer")
Model = section("Model")
Masking = section("Masking (masked objectives)")
Head = section("Head")
Adaptation = section("Adaptation")
Training = section("Training")
Machine = section("Machine")
