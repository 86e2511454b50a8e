"""Installed bases of the tests' own: a folder on sys.path with a module and the metadata that pip would write."""

import importlib
import importlib.metadata
from itertools import count
from pathlib import Path

import pytest

from headswap.bundle.bundle import Bundle
from headswap.model.text_model import build_model
from headswap.tokens.tokenizer import Tokenizer
from tiny import tiny_model_shape

NUMBERS = count()


class Box:
    """A place for packages, and how one is put there."""

    def __init__(self, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.site = site
        site.mkdir(parents=True, exist_ok=True)
        monkeypatch.syspath_prepend(str(site))
        # Packages that happen to be installed beside the tests are not theirs.
        monkeypatch.setattr("headswap.core.installed_bases._entry_points", self._own)

    def _own(self) -> list[importlib.metadata.EntryPoint]:
        found = importlib.metadata.entry_points(group="headswap.bases")
        return [point for point in found if point.dist and Path(str(point.dist.locate_file(""))) == self.site]

    def offer(self, name: str, value: object, *, package: str | None = None, code: str | None = None) -> None:
        """Install a package with one base; its object is `value`, or what `code` makes of BUNDLE."""
        package = package or f"headswap-base-{name}"
        module = f"{package.replace('-', '_')}_of_test_{next(NUMBERS)}"  # Python keeps modules from test to test
        (self.site / f"{module}.py").write_text(code or f"BUNDLE = {value!r}\n", encoding="utf-8")
        metadata = self.site / f"{module}-1.2.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n", encoding="utf-8")
        (metadata / "entry_points.txt").write_text(f"[headswap.bases]\n{name} = {module}:BUNDLE\n", encoding="utf-8")
        importlib.invalidate_caches()


def tiny_base(folder: Path, tokenizer: Tokenizer, *, objective: str = "causal", seed: int = 0) -> Path:
    """A base that was never trained, saved as a bundle with something of a card."""
    direction = "causal" if objective == "causal" else "bidirectional"
    model = build_model(tiny_model_shape(direction=direction, vocab_size=tokenizer.vocab_size), seed=seed)
    card = {"tokens read": 2_000_000, "held-out loss": 5.5, "licence": "MIT", "limits": "knows nothing"}
    Bundle(model, tokenizer, objective=objective, card=card).save(folder)
    return folder
