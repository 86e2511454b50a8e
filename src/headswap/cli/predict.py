"""`headswap predict`."""

from typing import Annotated

from cyclopts import Parameter

from headswap.cli.flags import Output, OutputFlags


def predict(
    bundle: str,
    *text: str,
    file: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,  # - is standard input
    text_column: str | None = None,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Label texts: those given, those of a file, or one a line from standard input.

    Example: headswap predict runs/classifier "a fine film" "a waste of time"

    Parameters
    ----------
    bundle
        Bundle or run folder of a classifier.
    text
        Texts to label.
    file
        Read the texts from this file instead (- for standard input).
    text_column
        Name of the text column of the file; text by default.
    """
    from headswap.bundle import Bundle
    from headswap.cli.display import print_json, start_messages
    from headswap.cli.texts import texts_to_read
    from headswap.training.evaluate import predict_texts

    start_messages(quiet=flags.quiet)
    texts = texts_to_read(text, file, text_column)
    for prediction in predict_texts(Bundle.load(bundle), texts):
        if flags.json:
            print_json({"label": prediction.label, "scores": prediction.scores})
        else:
            print(f"{prediction.label}\t{prediction.scores[prediction.label]:.4f}")
