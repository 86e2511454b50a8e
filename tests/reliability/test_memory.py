"""Peak memory of whole commands on inputs of two sizes: it does not grow with the input, or by little per row.

Each command runs in a process of its own, which a small process starts: getrusage counts the memory of a parent, too.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import headswap as hs
from headswap.core.current_folder import new_python
from headswap.core.random_streams import numpy_stream
from tiny_tokenizers import trained

LAUNCHER = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""
SMALL_CHUNKS = """
from headswap.cli.main import main
from headswap.inference import predict
predict.CHUNK_INPUTS = 2_000
main()
"""
NUM_ROWS = (4_000, 24_000)


def peak_megabytes(*command: object) -> float:
    """The peak of the resident memory of a Python process."""
    words = new_python("-c", LAUNCHER, *new_python(*map(str, command)))
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode in (0, 1), done.stderr  # the doctor leaves with 1 where it finds problems
    assert "Traceback" not in done.stderr, done.stderr
    return int(done.stdout) / 1024


def growth(command: Callable[[int], list[object]], sizes: tuple[int, int] = NUM_ROWS) -> float:
    """How many megabytes more a command needs for the larger of two inputs."""
    small, large = (peak_megabytes(*command(size)) for size in sizes)
    return large - small


def rows(count: int) -> list[str]:
    """Short rows of random words."""
    numbers = numpy_stream(0, "rows").zipf(1.3, (count, 10)).clip(max=20_000)
    return [" ".join(f"w{number}" for number in row) for row in numbers]


@pytest.mark.parametrize("extension", ["txt", pytest.param("jsonl", marks=pytest.mark.slow)])
def test_predict_does_not_grow_with_the_number_of_texts(
    extension: str, tiny_classifier: hs.Run, tmp_path: Path
) -> None:
    def command(count: int) -> list[object]:
        file = tmp_path / f"{count}.{extension}"
        lines = rows(count) if extension == "txt" else [json.dumps({"text": row}) for row in rows(count)]
        file.write_text("".join(f"{line}\n" for line in lines))
        return ["-c", SMALL_CHUNKS, "predict", tiny_classifier.path, "--file", file, "--quiet"]

    assert growth(command) < 25  # 70 MB if all texts are scored at once


def test_doctor_needs_little_memory_per_row(tmp_path: Path) -> None:
    def command(count: int) -> list[object]:
        file = tmp_path / f"{count}.csv"
        lines = [f"{row},{number % 2}" for number, row in enumerate(rows(count))]
        file.write_text("text,label\n" + "".join(f"{line}\n" for line in lines))
        return ["-m", "headswap", "doctor", "--train", file, "--test", tmp_path / f"{NUM_ROWS[0]}.csv"]

    assert growth(command) < 40  # 140 MB with a dictionary of 16 bands per row


def test_a_token_store_of_one_document_needs_little_memory_per_character(tmp_path: Path) -> None:
    trained().save(tmp_path / "tokenizer.json")

    def command(count: int) -> list[object]:
        file = tmp_path / f"{count}.txt"
        file.write_text("\n".join(rows(count)))
        flags = [
            "--documents",
            "file",
            "--tokenizer",
            tmp_path / "tokenizer.json",
            "--out",
            tmp_path / f"{count}.store",
        ]
        return ["-m", "headswap", "store", file, *flags]

    # 4 MB more text. Measured: 165 to 183 MB in ten calls; 700 MB if the text is encoded as one.
    assert growth(command, (20_000, 100_000)) < 320
