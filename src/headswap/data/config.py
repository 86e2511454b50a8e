"""Settings of the data room: which files are read, and where texts and labels are in them. Imports no torch."""

from typing import Annotated, Literal

from pydantic import Field

from headswap.core.settings import Settings

DocumentUnit = Literal["auto", "line", "paragraph", "file"]
TaskName = Literal["classify", "multilabel", "regress", "tag", "span"]


class ReadSettings(Settings):
    """How files of a corpus are split into documents."""

    documents: DocumentUnit = "auto"
    """How a plain text file is split into documents: line (one document per line), paragraph (separated by blank
    lines), file (the whole file is one document), or auto (paragraph if at least 10% of the lines are blank, otherwise
    line)."""
    text_column: str = "text"
    """Name of the column with the texts in .jsonl, .csv, .tsv and .parquet files."""


class ColumnSettings(Settings):
    """Names of the columns of a labelled set. The task decides which of them are read."""

    text_column: str = "text"
    """Name of the column with the texts."""
    text_pair_column: str | None = None
    """Name of the column with the second text, if each example is a pair of texts (tasks classify, multilabel and
    regress). Default: none, each example is one text."""
    label_column: str = "label"
    """Name of the column with the labels."""
    label_separator: Annotated[str, Field(min_length=1)] = ","
    """Separator between labels in one string (task multilabel); labels in a JSON list need none."""
    tokens_column: str = "tokens"
    """Name of the column with the words of a sentence, as a list (task tag)."""
    tags_column: str = "tags"
    """Name of the column with one tag per word, as a list (task tag)."""
    conll_word_column: Annotated[int, Field(ge=1)] = 1
    """Number of the column with the words in a .conll file, counted from 1 (task tag)."""
    conll_tag_column: Annotated[int, Field(ge=1)] | None = None
    """Number of the column with the tags in a .conll file, counted from 1 (task tag). Default: the last column."""
    context_column: str = "context"
    """Name of the column with the text that contains the answer (task span)."""
    question_column: str = "question"
    """Name of the column with the questions (task span)."""
    answers_column: str = "answers"
    """Name of the column with the answers and their start positions, in the format of SQuAD (task span)."""


class LabelledSettings(ColumnSettings):
    """The labelled sets, their task and their columns."""

    train: str | None = None
    """Labelled training set: a file (.jsonl, .csv, .tsv, .parquet, .conll, or plain text with --label-file), or a named
    data set such as movies."""
    validation: str | None = None
    """Labelled validation set, used to choose the best epoch and to stop early. Default: a stratified 20% of the
    training set, at most 2,000 examples; nothing is held out if it has fewer than 200."""
    test: str | None = None
    """Labelled test set, evaluated once at the end of training. Default: the test split of a named data
    set, otherwise none."""
    group_column: str | None = None
    """Name of a column that names the author, patient or thread of each text (tasks classify, multilabel and regress).
    Texts of one group stay on one side of a split, and a group in two sets counts as overlap. Default: none."""
    task: TaskName | None = None
    """What the model predicts: classify (one label per text), multilabel (any number of labels per text), regress (a
    number per text), tag (one tag per word), span (the answer to a question, as part of a context). Default: detected
    from the training file: tag for .conll files and files with a tokens column, span for files in the format of SQuAD,
    multilabel if the labels are lists, otherwise classify."""
    label_file: str | None = None
    """File with the labels of a plain text training set, one label per line. Default: none."""
    validation_label_file: str | None = None
    """File with the labels of a plain text validation set, one label per line. Default: none."""
    test_label_file: str | None = None
    """File with the labels of a plain text test set, one label per line. Default: none."""
    num_train: Annotated[int, Field(ge=2)] | None = None
    """Use only this many training examples, a stratified random sample that depends on --seed. Default: all."""
