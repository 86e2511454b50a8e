"""A slice of the mutations of `make torture`: protected files and inputs."""

from pathlib import Path

import pytest

from headswap.core.random_streams import numpy_stream
from reliability.mutation_runs import EVERY_RESUMED, run_mutations
from reliability.mutations import mutated

CASES = 100


def test_a_mutation_is_detected_or_harmless_and_no_input_gives_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = run_mutations(tmp_path, CASES, seed=1)
    assert counts.failures == []
    assert counts.protected["cases"] + counts.inputs["cases"] == CASES
    assert counts.protected["cases"] >= CASES // EVERY_RESUMED
    assert counts.protected["detected"] > counts.protected["harmless"]
    assert counts.inputs["detected"] > 5


def test_a_mutation_depends_only_on_its_number() -> None:
    content = b'{"a": [1, 2.5, "x"], "b": {"c": null}}'
    kinds = set()
    for number in range(60):
        one, two = (mutated(content, "a.json", numpy_stream(0, "mutation", number)) for _ in range(2))
        assert one == two
        kinds.add(one[0])
    assert {"flipped bits", "truncated", "wrong value", "swapped values", "repeated key", "missing key"} <= kinds
