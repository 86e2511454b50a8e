"""CITATION.cff has what its format requires and agrees with pyproject.toml."""

import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]


def test_the_citation_is_complete_and_agrees_with_the_project() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys(), "the format requires these"
    assert (citation["cff-version"], citation["type"]) == ("1.2.0", "software")
    assert all("name" in author or "family-names" in author for author in citation["authors"])
    assert [citation[key] for key in ("title", "version", "license", "keywords")] == [
        project[key] for key in ("name", "version", "license", "keywords")
    ]
