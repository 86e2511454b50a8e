"""`headswap pretrain`."""

from pathlib import Path
from typing import Annotated

from headswap.cli.flags import Machine, Model, Output, Reading, Tokens, Training, TrainingFlags
from headswap.model.config import ModelSettings
from headswap.text.config import ReadSettings, TokenizerSettings
from headswap.training.config import MachineSettings, PretrainTraining


def pretrain(
    *corpus: str,
    out: Path,
    flags: Annotated[TrainingFlags, Output] = TrainingFlags(),
    read: Annotated[ReadSettings | None, Reading] = None,
    tokenizer: Annotated[TokenizerSettings | None, Tokens] = None,
    model: Annotated[ModelSettings | None, Model] = None,
    training: Annotated[PretrainTraining | None, Training] = None,
    machine: Annotated[MachineSettings | None, Machine] = None,
) -> None:
    """Pre-train a base on unlabelled text.

    Example: headswap pretrain reviews.txt --out runs/base --max-minutes 10

    Parameters
    ----------
    corpus
        Files, folders, globs, a token store, a named data set, or - for standard input.
    out
        Folder of the run.
    """
    from headswap.cli.display import print_json
    from headswap.cli.training_verb import run_verb
    from headswap.training.pretrain import pretrain as pretrain_run

    read_values = read.model_dump(exclude_unset=True) if read else {}
    sections = {
        "corpus": read_values | ({"corpus": corpus} if corpus else {}),
        "tokenizer": tokenizer,
        "model": model,
        "training": training,
        "machine": machine,
    }
    run, console = run_verb(pretrain_run, out, flags, sections)
    if run is None:
        return
    result = run.result
    if flags.json:
        print_json({"run": str(run.path), **result})
        return
    if not flags.quiet:
        if result["loss"] is not None:
            references = result["references"]
            console.print(
                f"Held-out loss {result['loss']:.3f} (perplexity {result['perplexity']:.1f}, "
                f"{result['bits_per_byte']:.3f} bits per byte); knowing only how often each token occurs gives "
                f"{references['unigram_entropy']:.3f}, knowing nothing {references['ln_vocabulary']:.3f}."
            )
        console.print(f"The base is in {run.path}. Next: headswap finetune --base {run.path} --train FILE --out DIR")
