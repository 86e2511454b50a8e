"""docs/interop.md: the versions of its table are the tested ones, and it has a result of the fresh environments."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "transformers:": "transformers", "sentence-transformers": "sentence-transformers", "PEFT": "peft",
    "scikit-learn": "scikit-learn", "onnxruntime": "onnxruntime", "TensorBoard": "tensorboard",
    "MLflow": "mlflow-skinny", "huggingface_hub": "huggingface_hub",
}  # fmt: skip
"""How the first cell of a row begins, and the package whose version the row has."""


def test_the_versions_of_the_table_are_those_of_the_constraints() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    tested = dict(line.split("==") for line in lines)
    text = (ROOT / "docs" / "interop.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.*?) \| (?:in|out|both) \| ?(.*?) ?\| `tests/", text, re.MULTILINE)
    found = set()
    for part, version in rows:
        for beginning, package in PACKAGES.items():
            if part.startswith(beginning):
                assert version == tested[package], part
                found.add(package)
    assert found == set(PACKAGES.values())


def test_the_result_of_the_fresh_environments_is_recorded() -> None:
    text = (ROOT / "docs" / "interop.md").read_text(encoding="utf-8")
    result = text.partition("<!-- fresh environments: written by the script -->\n")[2].partition("<!-- end -->")[0]
    environments = re.findall(r"^\| ([\w-]+) only \| .*\d\.\d.* \| all equal \| [\de.+-]+ \|$", result, re.MULTILINE)
    assert environments == ["transformers", "sentence-transformers", "onnxruntime", "scikit-learn"]
    assert re.match(r"\d{4}-\d\d-\d\d, Python 3\.", result)
