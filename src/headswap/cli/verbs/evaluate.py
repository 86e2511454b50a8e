"""`headswap evaluate`."""

from typing import Annotated, Any

from pydantic import Field

from headswap.cli.flags import Data, Machine, Output, OutputFlags
from headswap.data.config import ColumnSettings, DocumentUnit
from headswap.training.config import MOST_THREADS, FastName, MachineSettings, PrecisionName


class EvaluationMachine(MachineSettings):
    """The machine of an evaluation."""

    precision: PrecisionName = "auto"
    """Number format of matrix multiplications. auto uses bf16 on a GPU that supports it, otherwise fp32."""
    threads: Annotated[int, Field(ge=1, le=MOST_THREADS)] | None = None
    """Number of CPU threads. Default: one per core."""
    deterministic: bool = False
    """Use only deterministic CUDA kernels, so that a repeated evaluation gives bit-identical scores. It can be slower.
    On a CPU scores are always bit-identical if the number of threads is the same."""
    fast: FastName = "auto"
    """auto uses fast attention kernels; off does not. Scores differ only by rounding."""


def evaluate(
    bundle: str,
    data: str,
    /,
    *,
    columns: Annotated[ColumnSettings | None, Data] = None,
    label_file: str | None = None,
    documents: DocumentUnit | None = None,
    max_length: int | None = None,
    abstain_below: float | None = None,
    average_with: tuple[str, ...] = (),
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
    machine: Annotated[EvaluationMachine | None, Machine] = None,
) -> None:
    """Score a fine-tuned model on labelled text, or a language model on a corpus.

    Example: headswap evaluate runs/classifier test.csv

    Example: headswap evaluate runs/base reviews.txt

    Parameters
    ----------
    bundle
        Run folder or bundle of a model, an installed base (box:NAME, see headswap bases), or a Hugging Face checkpoint:
        a folder (hf:FOLDER) or a name on the Hub (hf:NAME).
    data
        For a fine-tuned model a labelled set: a file or a named data set (see headswap datasets). For a base, which is
        scored as a language model, a corpus.
    label_file
        File with one label per line, for a set in plain text.
    documents
        How a plain text corpus is split into documents (for a language model): line, paragraph, file (the whole file is
        one document), or auto (paragraph if at least 10 % of the lines are blank, otherwise line). [default: auto]
    max_length
        Maximum number of tokens per text. [default: for a fine-tuned model that of its fine-tuning; for a base its
        context length]
    abstain_below
        For classifiers: leave texts whose highest probability is below this number unanswered, and also report the
        answered share (coverage) and its accuracy. [default: answer all]
    average_with
        For classifiers: another fine-tuned model whose probabilities are averaged with those of this one; repeat the
        flag for several. The models need the same labels, not the same base. [default: none]
    """
    from headswap.bundle.bundle import Bundle
    from headswap.cli.display import print_json, start_messages
    from headswap.cli.scores import print_evaluation
    from headswap.inference.average import load_others
    from headswap.inference.evaluate import score_language_model, score_task
    from headswap.tasks.choose import task_of
    from headswap.training.device import Machine as Computer

    start_messages(quiet=flags.quiet)
    machine = machine or EvaluationMachine()
    computer = Computer(machine)
    loaded = Bundle.load(bundle, device=computer.device, allow_download=machine.allow_download)
    columns = columns or ColumnSettings()
    if loaded.model.shape.head == "lm":
        given = {name.replace("_", "-"): True for name in columns.model_fields_set if name != "text_column"}
        _refuse(
            "a language model",
            {**given, "label-file": label_file, "abstain-below": abstain_below, "average-with": average_with or None},
        )
        metrics = score_language_model(
            loaded, data, text_column=columns.text_column, documents=documents or "auto", max_length=max_length,
            autocast=computer.scoring(),
        )  # fmt: skip
    else:
        task = task_of(loaded)
        _refuse(f"a {task.product}", {"documents": documents})
        metrics = score_task(
            loaded, data, columns=columns, label_file=label_file, max_length=max_length, autocast=computer.scoring(),
            abstain_below=abstain_below, others=load_others(average_with, loaded, device=computer.device),
        )  # fmt: skip
    if flags.json:
        print_json(metrics)
    elif loaded.model.shape.head == "lm":
        _print_language_model(metrics)
    else:
        print_evaluation(task, metrics)


def _refuse(what: str, flags: dict[str, object]) -> None:
    """Refuse flags that would have no effect."""
    from headswap.core.errors import SettingError

    if given := [f"--{name}" for name, value in flags.items() if value is not None]:
        raise SettingError(f"{' and '.join(given)} cannot be used: the model is {what}.")


def _print_language_model(metrics: dict[str, Any]) -> None:
    from headswap.cli.display import print_table

    values = [
        (name.removeprefix("num_").replace("_", " "), f"{value:,}" if isinstance(value, int) else f"{value:.4f}")
        for name, value in metrics.items()
    ]
    print_table("Language model", ("measure", "value"), values)
