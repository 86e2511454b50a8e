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
    precision: Literal["fp32", "bf16"] = "fp32",
    device: Annotated[DeviceName, Device] = "auto",
    fast: Annotated[FastName, Fast] = "auto",
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Label texts, tag words, answer questions: those given, those of a file, or one a line from standard input.

    Example: headswap predict runs/classifier "a fine film" "a waste of time"

    Example: headswap predict runs/answerer "The film was made in 1950." --question "When was it made?"

    Parameters
    ----------
    bundle
        Bundle or run folder of a fine-tuned model.
    text
        Texts to label or tag, or contexts that hold an answer.
    file
        Read the inputs from this file instead (- for standard input). A tagger reads .conll files too.
    text_pair
        The second text, where the model reads pairs.
    question
        The question to answer from each text.
    text_column
        Name of the text column of the file; text by default.
    text_pair_column
        Name of the column with the second text; text_pair by default.
    tokens_column
        Name of the column with the words to tag; tokens by default. With --text-column raw texts are read instead.
    question_column
        Name of the question column; question by default.
    context_column
        Name of the context column; context by default.
    precision
        Number format of the large products. bf16 is faster on a CPU that has it; how far it moves the scores is said.
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
    for answer in predict_texts(loaded, inputs, precision=precision):
        if flags.json:
            print_json(answer.as_json())
        else:
            print(answer.as_line())
