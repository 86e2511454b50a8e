"""The two records that readers hand on: a document of a corpus and an example of a labelled set.

Both remember where they were found, so that whoever meets a problem later can still name the file and the line. How
they are read is left to documents.py, labelled.py and datasets.py.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Document:
    """One unlabelled text of a corpus."""

    text: str
    source: str
    """The file or named data set it comes from."""
    line: int
    """The line (or row) of the source on which it begins, counted from 1."""


@dataclass(frozen=True, slots=True)
class Example:
    """One text with its label."""

    text: str
    label: str
    source: str
    """The file or named data set it comes from."""
    line: int
    """The line (or row) of the source on which it begins, counted from 1."""
