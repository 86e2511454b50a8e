"""Settings of the data room: which files are read, and where texts and labels are in them. Imports no torch."""

from typing import Annotated, Literal

from pydantic import Field

from headswap.core.settings import Settings
from headswap.registry import TaskName

FEWEST_FOR_CHOOSING = 200
DocumentUnit = Literal["auto", "line", "paragraph", "file"]


class ReadSettings(Settings):
    """How files of a corpus are split into documents."""

    documents: DocumentUnit = "auto"
    """How a plain text file is split into documents: line (one document per line), paragraph (separated by blank
    lines), file (the whole file is one document), or auto (paragraph if at least 10 % of the lines are blank, otherwise
    line)."""
    text_column: str = "text"
    """Name of the column with the texts in .jsonl, .csv, .tsv and .parquet files."""


class ColumnSettings(Settings):
    """Names of the columns of a labelled set. The task decides which of them are read."""

    text_column: str = "text"
    """Name of the column with the texts."""
    text_pair_column: str | None = None
    """Name of the column with the second text, if each example is a pair of texts (tasks classify, multilabel and
    regress). Default: none, so each example is one text."""
    label_column: str = "label"
    """Name of the column with the labels."""
    label_separator: Annotated[str, Field(min_length=1)] = ","
    """Separator of labels that are given as one string (task multilabel). Labels in a JSON list need none."""
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
    answer_offsets: Literal["exact", "nearest"] = "exact"
    """What to do with an answer that is not at its start position in the context (task span): exact (an error) or
    nearest (use the nearest place in the context where it occurs; if there is none, it is an error)."""


class LabelledSettings(ColumnSettings):
    """The labelled sets, their task and their columns."""

    train: str | None = None
    """Labelled training set: a file (.jsonl, .csv, .tsv, .parquet, .conll, .json of SQuAD, or plain text with its
    labels in label_file), or a named data set such as movies (see headswap datasets)."""
    validation: str | None = None
    """Labelled validation set, used to choose the best epoch and to stop early. Default: 20 % of the training set, at
    most 2,000 examples, stratified by label; none if the training set has fewer than hold_out_from examples."""
    test: str | None = None
    """Labelled test set, scored once after training. Default: the test set of a named data set, otherwise none."""
    hold_out_from: Annotated[int, Field(ge=2, le=10**9)] = FEWEST_FOR_CHOOSING
    """Smallest training set of which a part is held out as validation set, if no validation set is given. A smaller
    training set is used whole: the number of epochs is fixed and the last weights are kept."""
    group_column: str | None = None
    """Name of the column with the author, patient or thread of each text (tasks classify, multilabel and regress).
    Texts of one group stay on one side of a split, and a group in two sets counts as overlap. Default: none."""
    unseen_labels: Literal["error", "wrong"] = "error"
    """What to do with labels of validation and test that do not occur in the training set (task tag): error, or wrong
    (they are scored as errors, because they cannot be predicted)."""
    task: TaskName | None = None
    """What the model predicts: classify (one label per text), multilabel (any number of labels per text), regress (one
    number per text), tag (one tag per word), span (the part of a text that answers a question). Default: tag if the
    training set is a .conll file or has a tokens column, span if it has the format of SQuAD, multilabel if its labels
    are lists, otherwise classify."""
    label_file: str | None = None
    """File with one label per line, for a training set in plain text. Default: none."""
    validation_label_file: str | None = None
    """File with one label per line, for a validation set in plain text. Default: none."""
    test_label_file: str | None = None
    """File with one label per line, for a test set in plain text. Default: none."""
    num_train: Annotated[int, Field(ge=2, le=10**8)] | None = None
    """Use only this many training examples: a random sample, stratified by label, that depends on the seed. Default:
    all."""

    @property
    def files(self) -> dict[str, tuple[str | None, str | None]]:
        """The source and the label file of each set."""
        return {
            "train": (self.train, self.label_file),
            "validation": (self.validation, self.validation_label_file),
            "test": (self.test, self.test_label_file),
        }
