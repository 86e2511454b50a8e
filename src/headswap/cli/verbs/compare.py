"""`headswap compare`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from headswap.cli.flags import Output, OutputFlags, switch

if TYPE_CHECKING:
    from headswap.study.statistics.runs import StudyRuns


def compare(
    *runs: str,
    out: Path | None = None,
    reference: str | None = None,
    test: str | None = None,
    text_column: str = "text",
    label_column: str = "label",
    no_texts: Annotated[bool, switch("Show no texts of the data in the report.")] = False,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Compare fine-tuning runs that are not part of a study, or the answers of other systems.

    Runs that differ only in their seed are compared as one model (an arm). All runs must have the same test set. If the
    labelled files can be read and are unchanged, the baselines of the task (such as the majority class and TF-IDF) are
    trained on the same training sets and added to the comparison.

    NAME=FILE is a file (.csv, .tsv, .jsonl or .parquet) with the answers of another system, such as an LLM, to the same
    test rows (task classify only). Its column row has the id of the test row, as in rows/test.jsonl, which headswap
    study --prepare-only writes for the same test set; an id such as test-17-9f2c01ab is the number of the row and a
    hash of its text. Its column prediction has a label. The columns budget, seed and score:LABEL (a probability) are
    optional. Several such files can be compared without any run.

    Example: headswap compare runs/scratch-* runs/pretrained-* --out comparison

    Parameters
    ----------
    runs
        Run folders of headswap finetune, or NAME=FILE with answers; at least two.
    out
        Folder in which a report is written. Without it the comparison is only printed.
    reference
        Arm with which every other arm is compared, by its name in the printed table. Default: scratch and the best
        baseline of each number of labels; if there is neither, the first arm.
    test
        Labelled test set that the answers are for. Required if no run folder is given.
    text_column
        Name of the column with the texts in the test set.
    label_column
        Name of the column with the labels in the test set.
    """
    from headswap.cli.display import print_json, start_messages
    from headswap.cli.study_display import print_results
    from headswap.core.errors import SettingError
    from headswap.study.report.write import make_report, write_report

    start_messages(quiet=flags.quiet)
    if len(runs) < 2:
        raise SettingError("compare needs at least two run folders or files of answers (NAME=FILE).")
    compared = _read(runs, reference, test, text_column, label_column)
    with_texts = not no_texts
    report = write_report(compared, out, with_texts=with_texts) if out else make_report(compared, with_texts=with_texts)
    results = report.as_json()
    if flags.json:
        print_json({"out": str(out) if out else None, **results})
    else:
        print_results(results, out=out)


def _read(
    runs: tuple[str, ...], reference: str | None, test: str | None, text_column: str, label_column: str
) -> "StudyRuns":
    """The runs and the answers that are compared."""
    from headswap.core.errors import SettingError
    from headswap.study.statistics import compare_answers
    from headswap.study.statistics.baseline_runs import add_baselines
    from headswap.study.statistics.runs import read_runs

    folders, files = compare_answers.split_arguments(runs)
    if not folders and test is None:
        raise SettingError("Only answers are compared, so the test set is needed. Pass --test FILE.")
    examples = rows = None
    if test is not None:
        columns = {"text_column": text_column, "label_column": label_column}
        examples, rows = compare_answers.read_test(test, **columns, files=files)
    if folders:
        found = add_baselines(read_runs(folders))
        if examples is not None and test is not None:
            compare_answers.check_same_texts(found, examples, test)
        found = compare_answers.add_answers(found, files, compare_answers.rows_of_runs(found)) if files else found
    else:
        assert examples is not None
        assert rows is not None
        found = compare_answers.of_answers(files, examples, rows)
    if files:
        found.arguments = (*runs, *(("--test", test) if test is not None and not folders else ()))
    if reference is not None:
        found.arguments = (*(found.arguments or runs), "--reference", reference)
    return compare_answers.with_reference(found, reference)
