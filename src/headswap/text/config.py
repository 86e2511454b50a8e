"""Settings of the text room: where documents and labels are, how they become tokens. Free of torch."""

from typing import Annotated, Literal

from pydantic import Field

from headswap.core.config import Settings
from headswap.core.errors import SettingError

DocumentUnit = Literal["auto", "line", "paragraph", "file"]
TokenizerKind = Literal["bpe", "unigram", "wordpiece", "word"]
Probability = Annotated[float, Field(ge=0, le=1)]


class ReadSettings(Settings):
    """How unlabelled documents are found in files."""

    documents: DocumentUnit = "auto"
    """What one document is in a plain text file: a line, a paragraph (blank lines between documents), the whole file,
    or auto (paragraph where a tenth of the lines or more are blank, else line)."""
    text_column: str = "text"
    """Name of the text column in .jsonl, .csv, .tsv and .parquet files."""


class LabelledSettings(Settings):
    """Where labelled texts are and what their columns are called."""

    train: str | None = None
    """Labelled training set: a file, or a named data set such as movies."""
    validation: str | None = None
    """Labelled set for every choice (epoch, stopping). Without it a stratified fifth of train is held out."""
    test: str | None = None
    """Labelled set that is scored once, at the end."""
    text_column: str = "text"
    """Name of the text column."""
    label_column: str = "label"
    """Name of the label column."""
    label_file: str | None = None
    """Labels of a plain text training set, one a line."""
    validation_label_file: str | None = None
    """Labels of a plain text validation set, one a line."""
    test_label_file: str | None = None
    """Labels of a plain text test set, one a line."""
    num_train: Annotated[int, Field(ge=2)] | None = None
    """Use only this many training examples, a stratified choice by seed."""


class TokenizerSettings(Settings):
    """Which tokenizer is used, or how one is trained."""

    tokenizer: str | None = None
    """An existing tokenizer: a tokenizer.json, a bundle or run folder, a token store, or the lab's dict.txt.
    Without it one is trained on the corpus."""
    kind: TokenizerKind = "bpe"
    """Kind of tokenizer to train: byte-level BPE, unigram, WordPiece, or whole words."""
    vocab_size: Annotated[int, Field(ge=64)] | None = None
    """Vocabulary size to train, special tokens included. By default it is fitted to the corpus."""
    lowercase: bool = False
    """Lower-case all text inside the tokenizer."""


class MaskingSettings(Settings):
    """What a masked objective hides from the model."""

    mlm_probability: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of the tokens that is to be predicted; special tokens are never chosen."""
    mask_unit: Literal["token", "word", "span"] = "token"
    """What is chosen as a whole: a token, a word, or a span of words (3.8 on average)."""
    mask_replace_prob: Probability = 0.8
    """Share of the chosen units that <mask> takes the place of."""
    random_replace_prob: Probability = 0.1
    """Share of the chosen units that random tokens take the place of; the rest stays as it is."""

    def model_post_init(self, _context: object) -> None:
        """The two shares cannot be more than everything."""
        if self.mask_replace_prob + self.random_replace_prob > 1 + 1e-9:
            raise SettingError(
                f"mask_replace_prob {self.mask_replace_prob:g} and random_replace_prob {self.random_replace_prob:g} "
                "are together more than 1."
            )
