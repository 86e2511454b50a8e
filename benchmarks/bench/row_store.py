"""Row 7: 20 MB of text to token ids on disk."""

import os
import shutil
import tempfile
from pathlib import Path

from headswap.data.config import ReadSettings
from headswap.data.documents import read_documents
from headswap.tokens.store import build_store

from .contest import Side, Work
from .row import Measured, Setting, Target, contest
from .texts import text_of, tokenizer

MEGABYTE = 1e6


def store(setting: Setting) -> list[Measured]:
    """One document per line; megabytes of text per second until everything is on disk."""
    if setting.device == "cuda":
        return []
    size = 0.2 if setting.is_tiny else 20
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "corpus.txt"
        with file.open("w", encoding="utf-8") as lines:
            seed = 0
            while lines.tell() < size * MEGABYTE:
                lines.write(text_of(300, seed % 3_000) + "\n")
                seed += 1
        words = tokenizer(2_000 if setting.is_tiny else 16_000)
        (Path(folder) / "tokenizer.json").write_text(words._serialised, encoding="utf-8")
        sides = [
            Side("headswap", lambda: our_store(file, words), 0),
            Side("datasets.map", lambda: datasets_store(file, is_lean=False), 0),
            Side("datasets.map, lean", lambda: datasets_store(file, is_lean=True), 0),
        ]
        return [
            contest(
                f"{size:g} MB of text", sides, setting, unit="MB/s", targets=[Target("datasets.map", 1.3)], rounds=3,
                floor="the tokenizer's own work; ids take 2 bytes per token on disk",
                note="datasets.map(batched=True, num_proc=2), saved to disk: with the tokenizer class of transformers, "
                "and lean: encode_batch_fast of tokenizers, only ids kept.",
            )
        ]  # fmt: skip


def our_store(file: Path, words: object) -> Work:
    """`headswap store`: read, tokenise, append to flat arrays with their checksums."""

    def work() -> float:
        out = file.parent / "ours"
        shutil.rmtree(out, ignore_errors=True)
        # `map` disables the tokenizer's threads and restores a copy of os.environ, which the process does not see.
        os.unsetenv("TOKENIZERS_PARALLELISM")
        build_store(read_documents([str(file)], ReadSettings(documents="line")), words, out)  # type: ignore[arg-type]
        return file.stat().st_size / MEGABYTE

    return work


def datasets_store(file: Path, *, is_lean: bool) -> Work:
    """`load_dataset` of the text file, `map` in two processes, `save_to_disk`."""
    import datasets
    import tokenizers
    import transformers

    datasets.disable_progress_bars()
    plain = tokenizers.Tokenizer.from_file(str(file.parent / "tokenizer.json"))
    usual = transformers.PreTrainedTokenizerFast(tokenizer_object=plain)

    def lean(rows: dict) -> dict:
        return {"ids": [encoding.ids for encoding in plain.encode_batch_fast(rows["text"], add_special_tokens=False)]}

    def default(rows: dict) -> dict:
        return dict(usual(rows["text"], add_special_tokens=False))

    def work() -> float:
        for folder in ("cache", "theirs"):
            shutil.rmtree(file.parent / folder, ignore_errors=True)
        text = datasets.load_dataset("text", data_files=str(file), cache_dir=str(file.parent / "cache"), split="train")
        encode = lean if is_lean else default
        done = text.map(encode, batched=True, num_proc=2, remove_columns=["text"], load_from_cache_file=False)
        done.save_to_disk(str(file.parent / "theirs"))
        return file.stat().st_size / MEGABYTE

    return work
