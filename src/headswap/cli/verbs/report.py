"""`headswap report`."""

from pathlib import Path
from typing import Annotated

from headswap.cli.flags import Output, OutputFlags, switch


def report(
    folder: Path,
    /,
    *,
    no_texts: Annotated[bool, switch("Show no texts of the data in the report.")] = False,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Write the report of a study again from its saved predictions.

    All numbers are recomputed. Nothing is trained.

    Example: headswap report studies/reviews --no-texts

    Parameters
    ----------
    folder
        Folder of the study.
    """
    from headswap.cli.display import print_json, start_messages
    from headswap.cli.study_display import print_results
    from headswap.study.report.write import write_report
    from headswap.study.statistics.runs import read_study

    start_messages(quiet=flags.quiet)
    results = write_report(read_study(folder), folder, with_texts=not no_texts).as_json()
    if flags.json:
        print_json({"out": str(folder), **results})
    else:
        print_results(results, out=folder)
