"""`headswap adapt`."""

from pathlib import Path
from typing import Annotated

from headswap.cli.flags import Machine, Output, Reading, Training, TrainingFlags
from headswap.data.config import ReadSettings
from headswap.pretraining.config import AdaptTraining
from headswap.training.config import MachineSettings


def adapt(
    bundle: str | None = None,
    *corpus: str,
    out: Path,
    reference: str | None = None,
    flags: Annotated[TrainingFlags, Output] = TrainingFlags(),
    read: Annotated[ReadSettings | None, Reading] = None,
    training: Annotated[AdaptTraining | None, Training] = None,
    machine: Annotated[MachineSettings | None, Machine] = None,
) -> None:
    """Go on pre-training a base on new text: its tokenizer, objective and head are kept.

    Example: headswap adapt runs/base my-domain.txt --out runs/adapted --max-minutes 10

    Parameters
    ----------
    bundle
        Bundle or run folder of a pre-trained base, or box:NAME (see headswap bases).
    corpus
        Files, folders, globs, a token store, a named data set, or - for standard input.
    out
        Folder of the run.
    reference
        Corpus of the old domain: its loss is told before and after, since new text can push old knowledge out.
    """
    from headswap.cli.pretrain import tell_of_base
    from headswap.cli.training_verb import run_verb
    from headswap.pretraining.pretrain import adapt as adapt_run

    start = {"base": bundle, "reference": reference}
    sections = {
        "corpus": (read.model_dump(exclude_unset=True) if read else {}) | ({"corpus": corpus} if corpus else {}),
        "model": {name: value for name, value in start.items() if value is not None},
        "training": training,
        "machine": machine,
    }
    tell_of_base(*run_verb(adapt_run, out, flags, sections), flags)
