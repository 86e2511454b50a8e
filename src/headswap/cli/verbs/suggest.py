"""`headswap suggest`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from pydantic import Field

from headswap.cli.flags import Device, Fast, Output, OutputFlags, switch
from headswap.training.config import DeviceName, FastName


def suggest(
    bundle: str,
    file: Annotated[str, Parameter(allow_leading_hyphen=True)],  # - is standard input
    *,
    count: Annotated[int, Field(ge=1)] = 50,
    text_column: str | None = None,
    out: Path | None = None,
    overwrite: Annotated[bool, switch("Replace the file if it exists.")] = False,
    device: Annotated[DeviceName, Device] = "auto",
    fast: Annotated[FastName, Fast] = "auto",
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Choose which unlabelled texts to label next.

    The texts are those that the classifier is least sure about, without texts that resemble each other. Without --out,
    the output has one line per text: its number in the file (from 1), the uncertainty and the text. The uncertainty is
    the entropy of the predicted probabilities, from 0 (sure) to 1 (all labels equally probable). On IMDb reviews this
    was not better than random choice (docs/log.md); benchmarks/suggest.py measures it on other data.

    Example: headswap suggest runs/classifier reviews.txt --count 50 --out to-label.csv

    Parameters
    ----------
    bundle
        Run folder or bundle of a classifier of single texts (tasks classify and multilabel).
    file
        Unlabelled texts: plain text (one text per line), or .jsonl, .csv, .tsv or .parquet. Give - for standard input.
    count
        Number of texts to choose.
    text_column
        Name of the column with the texts. [default: text]
    out
        CSV file to write, with the columns text and label; the labels are empty and to be filled in.
    """
    import csv

    from headswap.bundle.bundle import Bundle
    from headswap.cli.display import print_json, start_messages
    from headswap.cli.texts import stream_to_read
    from headswap.core.errors import counted
    from headswap.core.files import atomic_file
    from headswap.core.outputs import check_file, check_file_flags
    from headswap.inference.suggest import check_task, is_to_label, suggest_texts
    from headswap.training.device import device_with

    console = start_messages(quiet=flags.quiet)
    check_file_flags(out, ".csv", overwrite=overwrite, written="the texts are written as a table to be labelled")
    if out is not None:
        check_file(
            out, what="table without labels", is_ours=is_to_label, overwrite=overwrite, reads=[file],
            example="to-label.csv",
        )  # fmt: skip
    loaded = Bundle.load(bundle, device=device_with(device, fast=fast))
    check_task(loaded)
    found = suggest_texts(loaded, stream_to_read((), file, text_column), count)
    if out is not None:
        with atomic_file(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as target:
            rows = csv.writer(target, lineterminator="\n")
            rows.writerow(("text", "label"))
            rows.writerows((one.text, "") for one in found)
    if flags.json:
        for one in found:
            print_json(one.as_json())
    elif out is None:
        for one in found:
            print(one.as_line())
    elif not flags.quiet:
        console.print(f"{out}: {counted(len(found), 'text')} to label.")
