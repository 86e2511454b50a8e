"""`headswap predict`."""

from typing import Annotated, Literal

from cyclopts import Parameter

from headswap.cli.flags import Device, Download, Fast, Output, OutputFlags
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
    average_with: tuple[str, ...] = (),
    precision: Literal["fp32", "bf16"] = "fp32",
    device: Annotated[DeviceName, Device] = "auto",
    fast: Annotated[FastName, Fast] = "auto",
    allow_download: Annotated[bool, Download] = False,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Predict labels, numbers, tags or answers with a fine-tuned model.

    The texts are arguments, the contents of a file, or the lines of standard input. The output has one line per text;
    for a classifier it has the label and its probability.

    Example: headswap predict runs/classifier "a fine film" "a waste of time"

    Example: headswap predict runs/answerer "The film was made in 1950." --question "When was it made?"

    Parameters
    ----------
    bundle
        A fine-tuned model: a run folder, a bundle, or a Hugging Face checkpoint, which is a folder (hf:FOLDER) or a
        name on the Hub (hf:NAME).
    text
        Texts to classify or to tag, or texts that contain the answer to --question; - reads one text per line from
        standard input, but not with --text-pair or --question.
    file
        File with the texts: plain text (one text per line), or .jsonl, .csv, .tsv or .parquet with the columns below;
        for a tagger also .conll. Give - for plain text on standard input; pairs and questions need a file.
    text_pair
        Second text of every pair, for a model that was fine-tuned on pairs of texts.
    question
        Question to answer from each text.
    text_column
        Name of the column with the texts. [default: text]
    text_pair_column
        Name of the column with the second text of a pair. [default: text_pair]
    tokens_column
        For a tagger: name of the column with lists of words. If --text-column is given, texts are read from that column
        and split into words instead. [default: tokens]
    question_column
        Name of the column with the questions. [default: question]
    context_column
        Name of the column with the texts that contain the answers. [default: context]
    abstain_below
        For classifiers: do not answer texts whose highest probability is below this number. Their label is printed as
        (abstained), or as null with --json. [default: answer all]
    average_with
        For classifiers: another fine-tuned model whose probabilities are averaged with those of this one; repeat the
        flag for several. The models need the same labels, not the same base. [default: none]
    precision
        Number format of matrix multiplications. bf16 is faster on some CPUs. With bf16 the first texts are also
        computed in fp32, and the difference is printed on standard error.
    """
    from headswap.bundle.bundle import Bundle
    from headswap.cli.display import print_json, start_messages
    from headswap.cli.texts import InputColumns, inputs_to_read
    from headswap.inference.average import load_others
    from headswap.inference.predict import predict_stream
    from headswap.tasks.choose import task_of
    from headswap.training.device import device_with

    start_messages(quiet=flags.quiet)
    loaded = Bundle.load(bundle, device=device_with(device, fast=fast), allow_download=allow_download)
    task_of(loaded)
    columns = InputColumns(text_column, text_pair_column, tokens_column, question_column, context_column)
    inputs = inputs_to_read(loaded.task, text, file, columns, {"text-pair": text_pair, "question": question})
    others = load_others(average_with, loaded, device=loaded.model.device)
    for prediction in predict_stream(loaded, inputs, precision=precision, abstain_below=abstain_below, others=others):
        print_json(prediction.as_json()) if flags.json else print(prediction.as_line())
