"""Settings of the text room: where documents and labels are, how they become tokens. Free of torch."""

from typing import Annotated, Literal

from pydantic import Field

from headswap.core.settings import Settings

DocumentUnit = Literal["auto", "line", "paragraph", "file"]
TaskName = Literal["classify", "multilabel", "regress", "tag", "span"]


class ReadSettings(Settings):
    """How unlabelled documents are found in files."""

    documents: DocumentUnit = "auto"
    """What one document is in a plain text file: a line, a paragraph (blank lines between documents), the whole file,
    or auto (paragraph where a tenth of the lines or more are blank, else line)."""
    text_column: str = "text"
    """Name of the text column in .jsonl, .csv, .tsv and .parquet files."""


class ColumnSettings(Settings):
    """What the columns of a labelled set are called. Which of them are read is the task's matter."""

    text_column: str = "text"
    """Name of the text column."""
    text_pair_column: str | None = None
    """Name of the column with the second text, where an input is a pair of texts (classify, multilabel, regress)."""
    label_column: str = "label"
    """Name of the label column."""
    label_separator: Annotated[str, Field(min_length=1)] = ","
    """What parts the labels of a multi-label text where they are written as one string; a list needs none."""
    tokens_column: str = "tokens"
    """Name of the column with the words of a sentence, a list (tag)."""
    tags_column: str = "tags"
    """Name of the column with the tags of these words, a list (tag)."""
    conll_word_column: Annotated[int, Field(ge=1)] = 1
    """Which column of a .conll file holds the words, counted from 1 (tag)."""
    conll_tag_column: Annotated[int, Field(ge=1)] | None = None
    """Which column of a .conll file holds the tags, counted from 1; the last by default (tag)."""
    context_column: str = "context"
    """Name of the column with the text that holds the answer (span)."""
    question_column: str = "question"
    """Name of the question column (span)."""
    answers_column: str = "answers"
    """Name of the column with the answers and where they begin, as SQuAD has them (span)."""


class LabelledSettings(ColumnSettings):
    """Where labelled texts are, what their labels say and what their columns are called."""

    train: str | None = None
    """Labelled training set: a file, or a named data set such as movies."""
    validation: str | None = None
    """Labelled set for every choice (epoch, stopping). Without it a stratified fifth of train, at most 2,000,
    is held out."""
    test: str | None = None
    """Labelled set that is scored once, at the end."""
    task: TaskName | None = None
    """What is predicted: classify (one label a text), multilabel (any number of labels a text), regress (a number),
    tag (a tag a word), span (the answer to a question, inside a context). By default what the training file shows: tag
    for .conll files and a tokens column, span for SQuAD's, multilabel where labels are lists, else classify."""
    label_file: str | None = None
    """Labels of a plain text training set, one a line."""
    validation_label_file: str | None = None
    """Labels of a plain text validation set, one a line."""
    test_label_file: str | None = None
    """Labels of a plain text test set, one a line."""
    num_train: Annotated[int, Field(ge=2)] | None = None
    """Use only this many training examples, a stratified choice by seed."""
