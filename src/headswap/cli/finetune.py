"""`headswap finetune`."""

from pathlib import Path
from typing import Annotated, Any

from headswap.cli.flags import Adaptation, Head, Machine, Model, Output, Reading, Tokens, Training, TrainingFlags
from headswap.model.config import HeadShape
from headswap.text.config import LabelledSettings, TokenizerSettings
from headswap.training.config import AdaptationSettings, FinetuneTraining, MachineSettings, StartSettings


def finetune(
    *,
    out: Path,
    flags: Annotated[TrainingFlags, Output] = TrainingFlags(),
    data: Annotated[LabelledSettings | None, Reading] = None,
    tokenizer: Annotated[TokenizerSettings | None, Tokens] = None,
    model: Annotated[StartSettings | None, Model] = None,
    head: Annotated[HeadShape | None, Head] = None,
    adaptation: Annotated[AdaptationSettings | None, Adaptation] = None,
    training: Annotated[FinetuneTraining | None, Training] = None,
    machine: Annotated[MachineSettings | None, Machine] = None,
) -> None:
    """Put a new head on a base and fine-tune it on labelled text.

    Example: headswap finetune --base runs/base --train train.csv --test test.csv --out runs/classifier

    Parameters
    ----------
    out
        Folder of the run.
    """
    from headswap.cli.display import print_json
    from headswap.cli.training_verb import run_verb
    from headswap.training.finetune import finetune as finetune_run

    sections = {
        "data": data,
        "tokenizer": tokenizer,
        "model": model,
        "head": head,
        "adaptation": adaptation,
        "training": training,
        "machine": machine,
    }
    run, console = run_verb(finetune_run, out, flags, sections)
    if run is None:
        return
    result = run.result
    if result.get("test") and "baselines" not in result:
        result["baselines"] = _baselines(run.path)
        run.write("result.json", result)
    if flags.json:
        print_json({"run": str(run.path), **result})
    else:
        _print_result(result)
    if not flags.quiet:
        console.print(f"The classifier is in {run.path}. Next: headswap predict {run.path} 'your text'")


def _baselines(run: Path) -> dict[str, Any]:
    """What a linear model reaches with the same labels on the same test set."""
    from headswap.core.config import load_recipe
    from headswap.study.baselines import baselines
    from headswap.training.config import FinetuneRecipe
    from headswap.training.splits import read_splits

    splits = read_splits(load_recipe(FinetuneRecipe, run / "recipe.toml"))
    return baselines([*splits.train, *splits.validation], splits.test)


def _print_result(result: dict[str, Any]) -> None:
    from headswap.cli.display import print_table
    from headswap.study.statistics import wilson_interval

    if not result.get("test"):
        return
    test = result["test"]
    rows = []
    scores = {f"headswap ({result['base']})": test, **result["baselines"]}
    for name, score in scores.items():
        low, high = wilson_interval(score["accuracy"], score["num_examples"])
        rows.append((name, f"{score['accuracy']:.3f}", f"{low:.3f} to {high:.3f}", f"{score['macro_f1']:.3f}"))
    title = f"Test, {test['num_examples']:,} texts, largest class {test['majority_share']:.3f} of them, one seed"
    print_table(title, ("model", "accuracy", "95 % interval (test sample)", "macro-F1"), rows)
    if len(test["labels"]) <= 10:
        columns = ("truth \\ predicted", *test["labels"])
        print_table(
            "Confusion", columns, [(label, *row) for label, row in zip(test["labels"], test["confusion"], strict=True)]
        )
