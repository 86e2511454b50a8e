"""`headswap pretrain`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from headswap.batches.config import MaskingSettings
from headswap.cli.flags import Data, Machine, Masking, Model, Output, Tokenizer, Training, TrainingFlags, refuse_hidden
from headswap.core.errors import counted
from headswap.data.config import ReadSettings
from headswap.model.shape import ModelSettings
from headswap.pretraining.config import PretrainTraining
from headswap.tokens.config import TokenizerSettings
from headswap.training.config import ProcessSettings

if TYPE_CHECKING:
    from rich.console import Console

    from headswap.training.run_folder import RunFolder


class BaseTokenizer(TokenizerSettings):
    """The tokenizer of a new base."""

    tokenizer: str | None = None
    """An existing tokenizer: a tokenizer.json, a bundle or run folder, an installed base (box:NAME), a token store, or
    a dict.txt (sentencepiece pieces, one per line). Default: that of the token store if the corpus is one, otherwise a
    new one is trained on the corpus."""


def pretrain(
    *corpus: str,
    out: Path,
    flags: Annotated[TrainingFlags, Output] = TrainingFlags(),
    read: Annotated[ReadSettings | None, Data] = None,
    tokenizer: Annotated[BaseTokenizer | None, Tokenizer] = None,
    model: Annotated[ModelSettings | None, Model] = None,
    masking: Annotated[MaskingSettings | None, Masking] = None,
    training: Annotated[PretrainTraining | None, Training] = None,
    machine: Annotated[ProcessSettings | None, Machine] = None,
) -> None:
    """Pre-train a base (a Transformer to be fine-tuned later) on unlabelled text.

    The run folder OUT contains the base (bundle/), its recipe, its metrics and its checkpoints. Other commands
    accept the run folder.

    Example: headswap pretrain reviews.txt --out runs/base --max-minutes 10

    Parameters
    ----------
    corpus
        Text files, folders, glob patterns, addresses such as s3://BUCKET/FOLDER, a token store, a named data set (see
        headswap datasets), or - for standard input. Required, here or in the recipe of --config.
    out
        Folder of the new run.
    """
    from headswap.cli.training_command import run_training_command
    from headswap.pretraining.pretrain import pretrain as pretrain_run

    refuse_hidden("pretrain", machine)
    read_values = read.model_dump(exclude_unset=True) if read else {}
    sections = {
        "corpus": read_values | ({"corpus": corpus} if corpus else {}),
        "tokenizer": tokenizer,
        "model": model,
        "masking": masking,
        "training": training,
        "machine": machine,
    }
    report_base(*run_training_command(pretrain_run, out, flags, sections), flags)


def report_base(run: "RunFolder | None", console: "Console", flags: TrainingFlags) -> None:
    """Print the result of a run that pre-trained or adapted a base."""
    from headswap.cli.display import print_json

    if run is None:
        return
    result = run.result
    if flags.json:
        print_json({"run": str(run.path), **result})
    elif not flags.quiet:
        if result["loss"] is not None and "before" in result:
            former = result.get("former_objective")
            of = f" of {result['objective']}, while the base was trained by {former}" if former else ""
            console.print(f"Before adaptation: held-out loss {result['before']['loss']:.3f}{of}. After adaptation:")
        _print_held_out(console, result)
        if old := result.get("reference"):
            before, after = old["loss_before"], old["loss_after"]
            console.print(f"Loss on the reference text: {before:.3f} before adaptation, {after:.3f} after it.")
        base = shlex.quote(str(run.path))
        console.print(f"The base is in {run.path}. Next: headswap finetune --base {base} --train FILE --out DIR")


def _print_held_out(console: "Console", result: dict[str, Any]) -> None:
    """The loss on held-out text, with the losses of a unigram model and of a uniform distribution."""
    if result["loss"] is None:
        return
    unigram, uniform = (result["references"][name] for name in ("unigram_entropy", "ln_vocabulary"))
    bits = result["bits_per_byte"]
    size = ""
    if "held_out_documents" in result:  # not in older runs
        size = f" on {counted(result['held_out_documents'], 'document')}, {result['held_out_tokens']:,} tokens"
    more = f", {bits:.3f} bits per byte" if bits is not None else " at the masked tokens"
    console.print(
        f"Held-out loss {result['loss']:.3f}{size} (perplexity {result['perplexity']:.1f}{more}). For comparison: "
        f"token frequencies alone have a loss of {unigram:.3f}, a uniform distribution {uniform:.3f}."
    )
    if "masked_loss" in result:  # else no held-out token is masked, or the objective has one part
        console.print(
            f"The loss is the mean of {result['causal_loss']:.3f} for next tokens (bits per byte are of this part) and "
            f"{result['masked_loss']:.3f} for masked tokens, weighted by the shares of causal and masked steps."
        )
    for name, what in (("nsp", "Next-sentence"), ("sop", "Sentence-order")):
        if (accuracy := result.get(f"{name}_accuracy")) is not None:
            from headswap.metrics.intervals import wilson_interval

            pairs, loss = result[f"{name}_pairs"], result[f"{name}_loss"]
            low, high = wilson_interval(accuracy, pairs)
            console.print(
                f"{what} accuracy {accuracy:.3f} on {pairs:,} pairs (95 % interval {low:.3f} to {high:.3f}; chance is "
                f"0.500), loss {loss:.3f}."
            )
