"""`headswap predict`."""

from typing import Annotated, Literal

from cyclopts import Parameter

from headswap.cli.flags import Device, Fast, Output, OutputFlags
from headswap.training.config import DeviceName, FastName


def predict(
    bundle: str,
    *text: str,
    file: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,  # - is standard input
    text_pair: str | None = None,
    question: str | None = None,
    text_column: str | None = None,
    text_pair_column: str | None = None,
    tokens_column: str | None = None,
    question_column: str | None = None,
    context_column: str | None = None,
    abstain_below: float | None = None,
    precision: Literal["fp32", "bf16"] = "fp32",
    device: Annotated[DeviceName, Device] = "auto",
    fast: Annotated[FastName, Fast] = "auto",
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Classify texts, tag words or answer questions with a fine-tuned model.

    The texts are arguments, the lines of a file, or the lines of standard input. The output has one line per text.

    Example: headswap predict runs/classifier "a fine film" "a waste of time"

    Example: headswap predict runs/answerer "The film was made in 1950." --question "When was it made?"

    Parameters
    ----------
    bundle
        Bundle or run folder of a fine-tuned model.
    text
        Texts to classify or tag, or contexts that contain the answer; - reads one per line from standard input.
    file
        File with the inputs (- is standard input). A tagger reads .conll files too.
    text_pair
        Second text, for a model of text pairs.
    question
        Question to answer from each text.
    text_column
        Name of the text column of the file. [default: text]
    text_pair_column
        Name of the column with the second text. [default: text_pair]
    tokens_column
        Name of the column with the words to tag; --text-column reads raw texts instead. [default: tokens]
    question_column
        Name of the question column. [default: question]
    context_column
        Name of the context column. [default: context]
    abstain_below
        Do not answer texts whose highest probability is below this number (classifiers): the label is (abstained),
        with --json null. [default: answer all]
    precision
        Number format of the matrix products. bf16 is faster on some CPUs; its effect on the scores is reported.
    """
    from headswap.bundle.bundle import Bundle
    from headswap.cli.display import print_json, start_messages
    from headswap.cli.texts import InputColumns, inputs_to_read
    from headswap.inference.predict import predict_texts
    from headswap.tasks.registry import task_of
    from headswap.training.device import device_with

    start_messages(quiet=flags.quiet)
    loaded = Bundle.load(bundle, device=device_with(device, fast=fast))
    task_of(loaded)
    columns = InputColumns(text_column, text_pair_column, tokens_column, question_column, context_column)
    second = {"text-pair": text_pair, "question": question}
    inputs = inputs_to_read(loaded.task, text, file, columns, second)
    for prediction in predict_texts(loaded, inputs, precision=precision, abstain_below=abstain_below):
        if flags.json:
            print_json(prediction.as_json())
        else:
            print(prediction.as_line())
