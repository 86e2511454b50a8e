"""`headswap compare`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from headswap.cli.flags import Output, OutputFlags, switch

if TYPE_CHECKING:
    from headswap.data.config import ColumnSettings
    from headswap.study.statistics.runs import StudyRuns


TEST_COLUMNS = ("text_column", "text_pair_column", "label_column")


def compare(
    *runs: str,
    out: Path | None = None,
    reference: str | None = None,
    metric: str | None = None,
    test: str | None = None,
    text_column: str = "text",
    text_pair_column: str | None = None,
    label_column: str = "label",
    no_texts: Annotated[bool, switch("Show no texts of the data in the report.")] = False,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Compare fine-tuning runs that are not part of a study, or the answers of other systems.

    Runs that differ only in their seed, number of labels, threads or device are compared as one model (an arm). All
    runs must have the same test set. If the labelled files can be read and are unchanged, the baselines of the task
    (such as the majority class and TF-IDF) are trained on the same training sets and added to the comparison.

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
    metric
        Metric by which the arms are compared, and by which the baselines are tuned: accuracy or macro-f1 (classify),
        micro-f1 or macro-f1 (multilabel), r2 or pearson (regress), f1 (tag), f1 or exact-match (span). Default: the one
        that all runs were trained by (--metric of headswap finetune), otherwise the first one of the task.
    test
        Labelled test set that the answers are for. Required if no run folder is given.
    text_column
        Name of the column with the texts in the test set.
    text_pair_column
        Name of the column with the second texts in the test set, if each of its examples is a pair of texts.
    label_column
        Name of the column with the labels in the test set.
    """
    from headswap.cli.display import print_json, start_messages
    from headswap.cli.study_display import print_results
    from headswap.core.errors import SettingError
    from headswap.data.config import ColumnSettings
    from headswap.study.report.write import check_report_folder, make_report, write_report

    start_messages(quiet=flags.quiet)
    if len(runs) < 2:
        raise SettingError("compare needs at least two run folders or files of answers (NAME=FILE).")
    columns = ColumnSettings(text_column=text_column, text_pair_column=text_pair_column, label_column=label_column)
    if out is not None:
        check_report_folder(out, [name.partition("=")[2] or name for name in runs])
    compared = _read(runs, reference, metric, test, columns)
    with_texts = not no_texts
    report = write_report(compared, out, with_texts=with_texts) if out else make_report(compared, with_texts=with_texts)
    results = report.as_json()
    if flags.json:
        print_json({"out": str(out) if out else None, **results})
    else:
        print_results(results, out=out)


def _read(
    runs: tuple[str, ...], reference: str | None, metric: str | None, test: str | None, columns: "ColumnSettings"
) -> "StudyRuns":
    """The runs and the answers that are compared."""
    from headswap.core.errors import SettingError
    from headswap.study.statistics import compare_answers
    from headswap.study.statistics.baseline_runs import add_baselines
    from headswap.study.statistics.runs import read_runs

    folders, files = compare_answers.split_arguments(runs)
    if test is None and (unread := columns.not_default(TEST_COLUMNS)):
        raise SettingError(
            f"{', '.join(unread)}: columns are read from the test set. Pass --test FILE, or leave it out."
        )
    if not folders and test is None:
        raise SettingError("Only answers are compared, so the test set is needed. Pass --test FILE.")
    examples = rows = None
    if test is not None:
        examples, rows = compare_answers.read_test(test, columns, files=files)
    if folders:
        found = add_baselines(read_runs(folders, metric=metric))
        if examples is not None and test is not None:
            compare_answers.check_same_texts(found, examples, test)
        found = compare_answers.add_answers(found, files, compare_answers.rows_of_runs(found)) if files else found
    else:
        assert examples is not None
        assert rows is not None
        found = compare_answers.of_answers(files, examples, rows, metric=metric)
    given = {"--reference": reference, "--metric": metric}
    if test is not None and not folders:
        given |= {"--test": test}
        given |= {f"--{name.replace('_', '-')}": getattr(columns, name) for name in columns.not_default(TEST_COLUMNS)}
    options = [part for name, value in given.items() if value is not None for part in (name, value)]
    if files or options:
        found.arguments = (*runs, *options)
    return compare_answers.with_reference(found, reference)
