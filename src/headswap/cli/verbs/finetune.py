"""`headswap finetune`."""

import shlex
from pathlib import Path
from typing import Annotated

from headswap.cli.flags import (
    Adaptation,
    Consistency,
    Data,
    Head,
    Machine,
    Model,
    Output,
    Tokenizer,
    Training,
    TrainingFlags,
    refuse_hidden,
)
from headswap.data.config import LabelledSettings
from headswap.finetuning.config import (
    AdaptationSettings,
    ConsistencySettings,
    FinetuneTraining,
    HeadSettings,
    StartSettings,
)
from headswap.tokens.config import TokenizerSettings
from headswap.training.config import ProcessSettings


def finetune(
    *,
    out: Path,
    flags: Annotated[TrainingFlags, Output] = TrainingFlags(),
    data: Annotated[LabelledSettings | None, Data] = None,
    tokenizer: Annotated[TokenizerSettings | None, Tokenizer] = None,
    model: Annotated[StartSettings | None, Model] = None,
    head: Annotated[HeadSettings | None, Head] = None,
    adaptation: Annotated[AdaptationSettings | None, Adaptation] = None,
    training: Annotated[FinetuneTraining | None, Training] = None,
    consistency: Annotated[ConsistencySettings | None, Consistency] = None,
    machine: Annotated[ProcessSettings | None, Machine] = None,
) -> None:
    """Put a new head on a base and fine-tune it on labelled text.

    --base and --train are required, as flags or in the recipe of --config. With a test set, the scores are printed next
    to those of simple baselines (for a classifier: the majority class and TF-IDF + logistic regression). The run folder
    OUT contains the fine-tuned model (bundle/) and its results.

    With --base scratch a new model is trained. The options of the groups Tokenizer and Model need it;
    only --dropout and --direction can also be given with a base.

    Example: headswap finetune --base runs/base --train train.csv --test test.csv --out runs/classifier

    Example: headswap finetune --base runs/base --train train.conll --test test.conll --out runs/tagger

    Parameters
    ----------
    out
        Folder of the new run.
    """
    from headswap.bundle.bundle import CONFIG
    from headswap.bundle.config_json import read_use
    from headswap.cli.display import model_name, print_json
    from headswap.cli.scores import print_comparison
    from headswap.cli.training_command import run_training_command
    from headswap.finetuning.finetune import finetune as finetune_run
    from headswap.tasks.choose import named_task

    refuse_hidden("finetune", model)
    sections = {
        "data": data,
        "tokenizer": tokenizer,
        "model": model,
        "head": head,
        "adaptation": adaptation,
        "training": training,
        "consistency": consistency,
        "machine": machine,
    }
    run, console = run_training_command(finetune_run, out, flags, sections)
    if run is None:
        return
    result = run.result
    task = named_task(result.get("task"))
    if flags.json:
        print_json({"run": str(run.path), **result})
    elif result.get("test"):
        scores = {f"headswap ({model_name(result['base'])})": result["test"], **result.get("baselines", {})}
        print_comparison(task, scores)
    if not flags.quiet:
        use = read_use(run.path / "bundle" / CONFIG)
        command = f"headswap {use.verb} {shlex.quote(str(run.path))} {use.arguments}"
        console.print(f"The {task.product} is in {run.path}. Next: {command}")
