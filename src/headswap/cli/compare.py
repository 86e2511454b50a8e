"""`headswap compare`."""

from pathlib import Path
from typing import Annotated

from headswap.cli.flags import Output, OutputFlags, switch


def compare(
    *runs: Path,
    out: Path | None = None,
    no_texts: Annotated[bool, switch("Leave all texts out of the report.")] = False,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Compare fine-tuning runs that were started one by one.

    Runs that differ only in their seed are one arm. All runs must have the same test set. If the training files still
    exist, TF-IDF and the majority class are fitted to the same labels and compared too.

    Example: headswap compare runs/scratch-* runs/pretrained-* --out comparison

    Parameters
    ----------
    runs
        Run folders of headswap finetune.
    out
        Folder for a report. Without it the comparison is only printed.
    """
    from headswap.cli.display import print_json, start_messages
    from headswap.cli.study_display import print_results
    from headswap.core.errors import SettingError
    from headswap.study.baseline_runs import add_baselines
    from headswap.study.report import tell, write_report
    from headswap.study.runs import read_runs

    start_messages(quiet=flags.quiet)
    if len(runs) < 2:
        raise SettingError("compare needs at least two runs.")
    material = add_baselines(read_runs(runs))
    if out is None:
        results = tell(material, with_texts=not no_texts)
    else:
        results = write_report(material, out, with_texts=not no_texts)
    if flags.json:
        print_json({"out": str(out) if out else None, **results})
    else:
        print_results(results, out=out)
