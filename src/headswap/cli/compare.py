"""`headswap compare`."""

from pathlib import Path
from typing import Annotated

from headswap.cli.flags import Output, OutputFlags, switch


def compare(
    *runs: Path,
    out: Path | None = None,
    no_texts: Annotated[bool, switch("Show no texts of the data in the report.")] = False,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Compare fine-tuning runs that are not part of a study.

    Runs that differ only in their seed are compared as one model (an arm). All runs must have the same test set. If the
    training files still exist, TF-IDF + logistic regression and the majority class are trained on the same training
    sets and added to the comparison.

    Example: headswap compare runs/scratch-* runs/pretrained-* --out comparison

    Parameters
    ----------
    runs
        Run folders of headswap finetune, at least two.
    out
        Folder in which a report is written. Without it the comparison is only printed.
    """
    from headswap.cli.display import print_json, start_messages
    from headswap.cli.study_display import print_results
    from headswap.core.errors import SettingError
    from headswap.study.baseline_runs import add_baselines
    from headswap.study.report import make_report, write_report
    from headswap.study.runs import read_runs

    start_messages(quiet=flags.quiet)
    if len(runs) < 2:
        raise SettingError("compare needs at least two runs.")
    compared, with_texts = add_baselines(read_runs(runs)), not no_texts
    report = write_report(compared, out, with_texts=with_texts) if out else make_report(compared, with_texts=with_texts)
    results = report.as_json()
    if flags.json:
        print_json({"out": str(out) if out else None, **results})
    else:
        print_results(results, out=out)
