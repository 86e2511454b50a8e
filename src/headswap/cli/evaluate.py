"""`headswap evaluate`."""

from typing import Annotated, Any

from headswap.cli.flags import Machine, Output, OutputFlags
from headswap.text.config import DocumentUnit
from headswap.training.config import MachineSettings


def evaluate(
    bundle: str,
    data: str,
    /,
    *,
    text_column: str = "text",
    label_column: str | None = None,
    label_file: str | None = None,
    documents: DocumentUnit | None = None,
    max_length: int | None = None,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
    machine: Annotated[MachineSettings | None, Machine] = None,
) -> None:
    """Score a classifier on labelled text, or a language model on a corpus.

    Example: headswap evaluate runs/classifier test.csv

    Parameters
    ----------
    bundle
        Bundle or run folder.
    data
        Labelled set for a classifier, corpus for a language model.
    text_column
        Name of the text column.
    label_column
        Name of the label column, for a classifier; label by default.
    label_file
        Labels of a plain text set, one a line.
    documents
        What one document is in a plain text corpus, for a language model; auto by default.
    max_length
        Longest text in tokens; the base's limit by default.
    """
    from headswap.bundle import Bundle
    from headswap.cli.display import print_json, start_messages
    from headswap.training.machine import Machine as Computer
    from headswap.training.score import score_classifier, score_language_model

    start_messages(quiet=flags.quiet)
    computer = Computer(machine or MachineSettings())
    loaded = Bundle.load(bundle, device=computer.device)
    if loaded.model.shape.head == "classify":
        _refuse("a classifier", {"documents": documents})
        metrics = score_classifier(
            loaded, data, text_column=text_column, label_column=label_column or "label", label_file=label_file,
            max_length=max_length, machine=computer,
        )  # fmt: skip
    else:
        _refuse("a language model", {"label-column": label_column, "label-file": label_file})
        metrics = score_language_model(
            loaded, data, text_column=text_column, documents=documents or "auto", max_length=max_length,
            machine=computer,
        )  # fmt: skip
    if flags.json:
        print_json(metrics)
    else:
        _print(metrics)


def _refuse(what: str, flags: dict[str, object]) -> None:
    """Refuse flags that would have no effect."""
    from headswap.core.errors import SettingError

    if given := [f"--{name}" for name, value in flags.items() if value is not None]:
        raise SettingError(f"{' and '.join(given)} cannot be used: this bundle is {what}.")


def _print(metrics: dict[str, Any]) -> None:
    from headswap.cli.display import print_table
    from headswap.study.statistics import wilson_interval

    if "accuracy" not in metrics:
        values = [(name, f"{value:,}" if isinstance(value, int) else f"{value:.4f}") for name, value in metrics.items()]
        print_table("Language model", ("measure", "value"), values)
        return
    low, high = wilson_interval(metrics["accuracy"], metrics["num_examples"])
    rows = [
        ("accuracy", f"{metrics['accuracy']:.4f}", f"{low:.4f} to {high:.4f}"),
        ("macro-F1", f"{metrics['macro_f1']:.4f}", ""),
        ("largest class of these texts", f"{metrics['majority_share']:.4f}", ""),
        ("loss", f"{metrics['loss']:.4f}", ""),
        ("share of tokens cut off", f"{metrics['truncated_share']:.4f}", ""),
    ]
    print_table(f"{metrics['num_examples']:,} texts", ("measure", "value", "95 % interval (test sample)"), rows)
    if len(metrics["labels"]) <= 10:
        columns = ("truth \\ predicted", *metrics["labels"])
        confusion = zip(metrics["labels"], metrics["confusion"], strict=True)
        print_table("Confusion", columns, [(label, *row) for label, row in confusion])
