"""`headswap adapt`."""

from pathlib import Path
from typing import Annotated

from headswap.cli.flags import Data, Machine, Output, Training, TrainingFlags
from headswap.data.config import ReadSettings
from headswap.pretraining.config import AdaptTraining
from headswap.training.config import ProcessSettings


def adapt(
    bundle: str | None = None,
    *corpus: str,
    out: Path,
    reference: str | None = None,
    flags: Annotated[TrainingFlags, Output] = TrainingFlags(),
    read: Annotated[ReadSettings | None, Data] = None,
    training: Annotated[AdaptTraining | None, Training] = None,
    machine: Annotated[ProcessSettings | None, Machine] = None,
) -> None:
    """Continue the pre-training of a base on new text.

    The base keeps its tokenizer and its language modelling head; a Hugging Face checkpoint without such a head gets a
    new one. The base keeps its objective unless --objective is given; <mask> is then added to the tokenizer if the new
    objective needs it.

    Example: headswap adapt runs/base my-domain.txt --out runs/adapted --max-minutes 10

    Parameters
    ----------
    bundle
        Run folder or bundle of a pre-trained base, an installed base (box:NAME, see headswap bases), or a Hugging Face
        checkpoint: a folder (hf:FOLDER) or a name on the Hub (hf:NAME). Required, here or in the recipe of --config.
    corpus
        New text: files, folders, glob patterns, addresses such as s3://BUCKET/FOLDER, a token store, a named data set
        (see headswap datasets), or - for standard input. Required, here or in the recipe of --config.
    out
        Folder of the new run.
    reference
        Text similar to that of the first pre-training. The loss on it before and after the run is reported; it shows
        how much the base forgets.
    """
    from headswap.cli.training_command import run_training_command
    from headswap.cli.verbs.pretrain import report_base
    from headswap.pretraining.pretrain import adapt as adapt_run

    start = {"base": bundle, "reference": reference}
    sections = {
        "corpus": (read.model_dump(exclude_unset=True) if read else {}) | ({"corpus": corpus} if corpus else {}),
        "model": {name: value for name, value in start.items() if value is not None},
        "training": training,
        "machine": machine,
    }
    report_base(*run_training_command(adapt_run, out, flags, sections), flags)
