"""The catalogue of malformed inputs: a command per case, and parts of the expected message.

A case writes its files into an empty folder and returns the command; all paths are relative to that folder. `says` are
the parts that the message must contain: the file and line or the setting, what is wrong, and what to do.
"""

import gzip
import json
import lzma
import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from reliability.runs import SMALLEST, as_flags

SHAPE = as_flags(SMALLEST)
ROWS = [("the film was fine", "pos"), ("the film was dull", "neg"), ("a warm story", "pos"), ("a cold story", "neg")]
CSV = "text,label\n" + "".join(f"{text},{label}\n" for text, label in ROWS)


@dataclass(frozen=True)
class Good:
    """Valid inputs that cases damage: a base, a classifier, an unfinished run, a token store, a corpus."""

    folder: Path

    def copy(self, name: str, to: Path) -> Path:
        """Copy one of them into the folder of a case."""
        source = self.folder / name
        target = to / name
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy(source, target)
        return target


@dataclass(frozen=True)
class Case:
    """One malformed input."""

    name: str
    make: Callable[[Path, Good], list[str]]
    says: tuple[str, ...]
    stdin: bytes | None = None
    may_fill_cache: bool = False
    """Whether a tokenizer and a token store may be left in the cache, because the problem is found only in them."""


CASES: list[Case] = []


def case(name: str, *says: str, stdin: bytes | None = None) -> Callable[[Any], Any]:
    """Add a function to the catalogue."""

    def add(make: Callable[[Path, Good], list[str]]) -> Callable[[Path, Good], list[str]]:
        CASES.append(Case(name, make, says, stdin))
        return make

    return add


def argv(name: str, *words: str, says: tuple[str, ...], stdin: bytes | None = None, files: str = "") -> None:
    """Add a case that needs only the valid files named in `files`."""

    def make(folder: Path, good: Good) -> list[str]:
        for file in files.split():
            good.copy(file, folder)
        return list(words)

    CASES.append(Case(name, make, says, stdin))


# Labelled files


def labelled(name: str, file: str, content: bytes | str, *says: str, flags: tuple[str, ...] = ()) -> None:
    """Add a fine-tuning with a training file of this content."""

    def make(folder: Path, good: Good) -> list[str]:
        (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
        return ["finetune", "--base=scratch", f"--train={file}", "--out=out", *SHAPE, *flags]

    CASES.append(Case(name, make, says))


labelled("empty csv", "train.csv", "", "train.csv is empty: it contains no example")
labelled("csv with a header only", "train.csv", "text,label\n", "train.csv is empty: it contains no example")
labelled("csv without a label column", "train.csv", "text,stars\na b,3\n", "train.csv has no column 'label'",
         "Pass --label-column stars")  # fmt: skip
labelled("csv without a text column", "train.csv", "body,label\na b,x\n", "train.csv has no column 'text'",
         "Pass --text-column body")  # fmt: skip
labelled("csv with a misspelt column", "train.csv", "text,lable,id\na b,x,1\n", "has no column 'label'",
         "Did you mean 'lable'?")  # fmt: skip
labelled("csv separated by semicolons", "train.csv", "text;label\na b;x\n", "seem to be separated by ';'", "Convert it")
labelled(
    "tsv separated by commas", "train.tsv", "text,label\na b,x\n", "train.tsv has no column 'text'", "--text-column"
)
labelled("csv in Latin-1", "train.csv", CSV.encode() + "été,pos\n".encode("latin-1"), "train.csv, line 6",
         "byte 0xE9 is not UTF-8", "iconv")  # fmt: skip
labelled("csv with a NUL byte", "train.csv", CSV + "a\0b,pos\n", "train.csv, line 6: a NUL byte", "iconv")
labelled("csv in UTF-16 without a mark", "train.csv", CSV.encode("utf-16-le"), "train.csv, line 1: a NUL byte", "iconv")
labelled("csv with a missing field", "train.csv", CSV + "alone\n", "train.csv, line 6: 1 fields, but the header has 2")
labelled("csv with a field too many", "train.csv", CSV + "a,b,c\n", "train.csv, line 6: 3 fields", "in double quotes")
labelled("csv with a quote never closed", "train.csv", CSV + '"open,pos\n', "train.csv, line 6: invalid quoting",
         "must end with one")  # fmt: skip
labelled(
    "csv with text after a quote", "train.csv", CSV + '"a"b,pos\n', "train.csv, line 6: invalid quoting", "doubled"
)
labelled("csv with the column twice", "train.csv", "text,text,label\na,b,x\n", "has the column 'text' twice", "Rename")
labelled(
    "csv with a blank text",
    "train.csv",
    CSV + " ,pos\n",
    "train.csv, line 6: the text is blank",
    "Correct this line, or remove it",
)
labelled(
    "csv with a blank label",
    "train.csv",
    CSV + "a b,\n",
    "train.csv, line 6: the label is blank",
    "Correct this line, or remove it",
)
labelled("csv of one class", "train.csv", "text,label\na,x\nb,x\n", "train.csv has only one class ('x')",
         "at least two classes")  # fmt: skip
labelled("several problems at once", "train.csv", CSV + " ,pos\na b,\nx\n", "line 6: the text is blank",
         "line 7: the label is blank", "line 8: 1 fields")  # fmt: skip
labelled("truncated jsonl", "train.jsonl", '{"text": "a", "label": "x"}\n{"text": "b", "la',
         "train.jsonl, line 2", "not valid JSON")  # fmt: skip
labelled("jsonl that is one list", "train.jsonl", '[{"text": "a", "label": "x"}]', "train.jsonl, line 1",
         "write one object per line")  # fmt: skip
labelled("jsonl that is one pretty object", "train.json", '{\n "text": "a",\n "label": "x"\n}\n', "train.json, line 1",
         "write one object per line")  # fmt: skip
labelled("jsonl of a bare number", "train.jsonl", "3\n", "train.jsonl, line 1", "object")
labelled("jsonl without the label on a line", "train.jsonl", '{"text": "a", "label": "x"}\n{"text": "b"}\n',
         "train.jsonl, line 2", "'label'")  # fmt: skip
labelled("jsonl with a number as text", "train.jsonl", '{"text": 3, "label": "x"}\n', "train.jsonl, line 1",
         "the text is a number, not a string")  # fmt: skip
labelled("jsonl with null as text", "train.jsonl", '{"text": null, "label": "x"}\n', "line 1", "the text is null")
labelled("jsonl with a list as text", "train.jsonl", '{"text": ["a"], "label": "x"}\n', "line 1", "the text is a list")
labelled("jsonl with null as label", "train.jsonl", '{"text": "a", "label": null}\n', "line 1: the label is null")
labelled("jsonl with a list as label", "train.jsonl", '{"text": "a", "label": ["x"]}\n', "line 1", "label is a list",
         flags=("--task=classify",))  # fmt: skip
labelled("jsonl with the same labels everywhere", "train.jsonl", '{"text": "a", "label": ["x"]}\n' * 4, "train.jsonl",
         "the same labels ('x') on every text")  # fmt: skip
labelled("jsonl with an object as label", "train.jsonl", '{"text": "a", "label": {}}\n', "line 1", "label is an object")
labelled("jsonl with NaN as label", "train.jsonl", '{"text": "a", "label": NaN}\n', "line 1", "finite number")
labelled("jsonl with half a surrogate pair", "train.jsonl", '{"text": "\\ud800", "label": "x"}\n', "line 1", "U+D800",
         "half of a surrogate pair")  # fmt: skip
labelled("jsonl with an escaped NUL", "train.jsonl", '{"text": "a\\u0000", "label": "x"}\n', "line 1", "NUL character")
labelled("jsonl nested too deeply", "train.jsonl", '{"text": ' + "[" * 100_000 + "\n", "train.jsonl, line 1", "nested")
labelled("jsonl with a number too long", "train.jsonl", '{"text": "a", "label": ' + "9" * 5000 + "}\n", "line 1")
labelled("jsonl with a repeated key", "train.jsonl", '{"text": "a", "text": "b", "label": "x"}\n', "line 1", "twice")
labelled(
    "a .gz file that is not gzip", "train.csv.gz", CSV, "train.csv.gz is not complete gzip data", "compress it again"
)
labelled("truncated gzip", "train.csv.gz", gzip.compress(CSV.encode())[:-12], "train.csv.gz is not complete gzip",
         "It may be truncated")  # fmt: skip
labelled("gzip with a wrong checksum", "train.csv.gz", gzip.compress(CSV.encode())[:-8] + b"\0" * 8,
         "train.csv.gz is not complete gzip data")  # fmt: skip
labelled("truncated xz", "train.csv.xz", lzma.compress(CSV.encode())[:-12], "train.csv.xz is not complete xz data")
labelled("a .zst file that is not zstandard", "train.csv.zst", CSV, "train.csv.zst is not complete zstd data")
BOMB = gzip.compress(b"text,label\n" + (b"a" * 996 + b",b\n") * 100_000, 9)
labelled("a decompression bomb", "train.csv.gz", BOMB, "train.csv.gz decompresses to more",
         "decompress it yourself")  # fmt: skip
labelled(
    "a .parquet file that is not parquet", "train.parquet", "PAR1 not really PAR1", "train.parquet is not valid parquet"
)
labelled(
    "plain text without labels", "train.txt", "a\nb\n", "train.txt is plain text and has no labels", "--label-file"
)
labelled("more examples wanted than there are", "train.csv", CSV, "--num-train is 99", "train.csv has only 4 examples",
         flags=("--num-train=99",))  # fmt: skip
labelled("a column that does not exist", "train.csv", CSV, "has no column 'body'", "Pass --text-column",
         flags=("--text-column=body",))  # fmt: skip
labelled("a label file beside a column", "train.csv", CSV, "train.csv has a label column", "Leave it out",
         flags=("--label-file=train.csv",))  # fmt: skip
labelled("a label file that does not exist", "train.txt", "a\nb\n", "labels.txt does not exist",
         flags=("--label-file=labels.txt",))  # fmt: skip
labelled("a validation label file without its set", "train.csv", CSV, "--validation-label-file is given",
         "Pass --validation", flags=("--validation-label-file=train.csv",))  # fmt: skip
labelled("a test set that does not exist", "train.csv", CSV, "tests.csv does not exist", flags=("--test=tests.csv",))
labelled(
    "a validation set that does not exist", "train.csv", CSV, "val.csv does not exist", flags=("--validation=val.csv",)
)


@case("label file shorter than the text", "train.txt has 3 lines and labels.txt has 2", "Every text needs one label")
def _(folder: Path, good: Good) -> list[str]:
    (folder / "train.txt").write_text("a\nb\nc\n")
    (folder / "labels.txt").write_text("x\ny\n")
    return ["finetune", "--base=scratch", "--train=train.txt", "--label-file=labels.txt", "--out=out"]


@case("label file with a blank line", "labels.txt, line 2: the label is blank", "Correct this line, or remove it")
def _(folder: Path, good: Good) -> list[str]:
    (folder / "train.txt").write_text("a\nb\nc\n")
    (folder / "labels.txt").write_text("x\n\ny\n")
    return ["finetune", "--base=scratch", "--train=train.txt", "--label-file=labels.txt", "--out=out"]


def two_sets(role: str) -> Callable[[Path, Good], list[str]]:
    def make(folder: Path, good: Good) -> list[str]:
        (folder / "train.csv").write_text(CSV)
        (folder / "other.csv").write_text("text,label\na b,positive\n")
        return ["finetune", "--base=scratch", "--train=train.csv", f"--{role}=other.csv", "--out=out"]

    return make


for _role in ("test", "validation"):
    CASES.append(Case(f"{_role} label that is not in train", two_sets(_role),
                      ("other.csv, line 2", f"the label 'positive' of the {_role} set does not occur in train",
                       "labels in train: 'neg', 'pos'")))  # fmt: skip


@case("a folder as training set", "shelf is a folder", "a labelled set is one file")
def _(folder: Path, good: Good) -> list[str]:
    (folder / "shelf").mkdir()
    return ["finetune", "--base=scratch", "--train=shelf", "--out=out"]


@case("parquet without the column", "train.parquet has no column 'label'", "Pass --label-column y")
def _(folder: Path, good: Good) -> list[str]:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"], "y": ["x"]}), folder / "train.parquet")
    return ["finetune", "--base=scratch", "--train=train.parquet", "--out=out"]


argv("standard input as training set", "finetune", "--base=scratch", "--train=-", "--out=out",
     says=("cannot be read from standard input", "Give a file"))  # fmt: skip
argv("a training set that does not exist", "finetune", "--base=scratch", "--train=trian.csv", "--out=out",
     says=("trian.csv does not exist", "Did you mean 'train.csv'?"), files="train.csv")  # fmt: skip
argv("a named data set that is misspelt", "finetune", "--base=scratch", "--train=movie", "--out=out",
     says=("movie does not exist", "'movies'"))  # fmt: skip
argv(
    "no training set", "finetune", "--base=scratch", "--out=out", says=("No training set is given", "Pass --train FILE")
)
argv("no base", "finetune", "--train=train.csv", "--out=out", says=("No base is given", "Pass --base RUN"),
     files="train.csv")  # fmt: skip


# Corpora


def corpus(name: str, file: str, content: bytes | str, *says: str, flags: tuple[str, ...] = ()) -> None:
    """Add a pre-training on a file of this content."""

    def make(folder: Path, good: Good) -> list[str]:
        (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
        return ["pretrain", file, "--out=out", "--max-steps=1", *SHAPE, *flags]

    CASES.append(Case(name, make, says))


corpus("empty corpus", "corpus.txt", "", "corpus.txt", "no document")
corpus("corpus of blank lines", "corpus.txt", "\n \n\t\n", "corpus.txt", "no document")
corpus(
    "corpus in Windows-1252", "corpus.txt", b"fine\n\xe9t\xe9\n", "corpus.txt, line 2: byte 0xE9 is not UTF-8", "iconv"
)
corpus("corpus with a NUL byte", "corpus.txt", b"fine\na\0b\n", "corpus.txt, line 2: a NUL byte", "iconv")
corpus("corpus that is a picture", "corpus.txt", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "corpus.txt, line 1", "0x89")
corpus("corpus in cut UTF-16", "corpus.txt", "film\n".encode("utf-16")[:-1], "corpus.txt, line", "UTF-16")
corpus("corpus csv without a text column", "corpus.csv", "body,id\na b,1\n", "corpus.csv has no column 'text'",
       "Pass --text-column")  # fmt: skip
corpus("corpus jsonl with a number as text", "corpus.jsonl", '{"text": 1}\n', "corpus.jsonl, line 1", "not a string")
corpus("truncated corpus gzip", "corpus.txt.gz", gzip.compress(b"the film was fine\n" * 99)[:-9],
       "corpus.txt.gz is not complete gzip data", "truncated")  # fmt: skip
corpus("a text column for plain text", "corpus.txt", "fine\n", "--text-column is 'body'", "Leave it out",
       flags=("--text-column=body",))  # fmt: skip
corpus("a line without end in a small file", "corpus.txt.xz", lzma.compress(b"a" * (80 << 20)), "corpus.txt.xz",
       "decompresses to more")  # fmt: skip
argv("a corpus that does not exist", "pretrain", "corpsu.txt", "--out=out", files="corpus.txt",
     says=("corpsu.txt does not exist", "Did you mean 'corpus.txt'?"))  # fmt: skip
argv("one shard that does not exist", "pretrain", "corpus.txt", "part-2.txt", "--out=out", files="corpus.txt",
     says=("part-2.txt does not exist",))  # fmt: skip
argv("a glob without a match", "pretrain", "parts/*.txt", "--out=out", says=("No file matches parts/*.txt",))
argv("no corpus", "pretrain", "--out=out", says=("No corpus is given", "Name files, folders"))
argv("standard input that is empty", "pretrain", "-", "--out=out", says=("Standard input is empty",), stdin=b"")
argv("a corpus of one token", "pretrain", "corpus.txt", "--out=corpus.txt", files="corpus.txt",
     says=("--out corpus.txt",))  # fmt: skip
argv("a token store beside a file", "pretrain", "store", "corpus.txt", "--out=out", files="store corpus.txt",
     says=("store is a token store", "Give it alone"))  # fmt: skip
argv("a token store read by columns", "pretrain", "store", "--out=out", "--text-column=body", files="store",
     says=("--text-column cannot be set", "whose texts are already tokenized"))  # fmt: skip
argv("a tokenizer for a token store", "pretrain", "store", "--out=out", "--vocab-size=400", files="store",
     says=("--vocab-size cannot be set", "a tokenizer of its own"))  # fmt: skip


@case("a folder without text files", "The folder shelf contains no text files", ".txt")
def _(folder: Path, good: Good) -> list[str]:
    (folder / "shelf").mkdir()
    (folder / "shelf" / "picture.png").write_bytes(b"\x89PNG")
    return ["pretrain", "shelf", "--out=out"]


def damaged_store(name: str, *says: str) -> Callable[[Callable[[Path], None]], None]:
    def add(damage: Callable[[Path], None]) -> None:
        def make(folder: Path, good: Good) -> list[str]:
            damage(good.copy("store", folder))
            return ["pretrain", "store", "--out=out", "--max-steps=1", *SHAPE]

        CASES.append(Case(name, make, says))

    return add


def edit_json(file: Path, **changes: Any) -> None:
    """Replace entries of a JSON file; None removes one."""
    content = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


REBUILD = "Build it again with: headswap store"
damaged_store("store without its ids", "store is damaged: ids.bin is missing", REBUILD)(
    lambda store: (store / "ids.bin").unlink()
)
damaged_store("store with truncated ids", "ids.bin has 9 bytes where", REBUILD)(
    lambda store: (store / "ids.bin").write_bytes(b"123456789")
)
damaged_store("store whose ids were changed", "ids.bin is damaged: its SHA-256", "headswap store")(
    lambda store: (store / "ids.bin").write_bytes(bytes((store / "ids.bin").stat().st_size))
)
damaged_store("store whose description is broken", "store.json is not valid JSON")(
    lambda store: (store / "store.json").write_text("{")
)
damaged_store("store whose description is a list", "format None", "headswap store")(
    lambda store: (store / "store.json").write_text("[]")
)
damaged_store("store of a later format", "format 99", "headswap store")(
    lambda store: edit_json(store / "store.json", headswap_store=99)
)
damaged_store("store without its counts", "store.json lacks 'num_tokens'", REBUILD)(
    lambda store: edit_json(store / "store.json", num_tokens=None)
)
damaged_store("store whose arrays are a text", "store is damaged", REBUILD)(
    lambda store: edit_json(store / "store.json", arrays="none")
)
damaged_store("store with an impossible type", "store is damaged", REBUILD)(
    lambda store: edit_json(
        store / "store.json", arrays={name: {"dtype": "object", "length": 1, "sha256": ""} for name in
                                      ("ids", "offsets", "byte_counts")})
)  # fmt: skip
damaged_store("store with an array outside its folder", "store", REBUILD)(
    lambda store: edit_json(
        store / "store.json", arrays=json.loads((store / "store.json").read_text())["arrays"]
        | {"../../secret": {"dtype": "|u1", "length": 3, "sha256": ""}})
)  # fmt: skip
damaged_store("store without its tokenizer", "store contains no tokenizer", "Give a tokenizer.json")(
    lambda store: (store / "tokenizer.json").unlink()
)
damaged_store("store whose counts do not fit", "do not match store.json", REBUILD)(
    lambda store: edit_json(store / "store.json", num_documents=3)
)


# Flags and settings

TRAIN = ("pretrain", "corpus.txt", "--out=out")


def setting(name: str, flag: str, *says: str) -> None:
    """Add a pre-training with one wrong flag."""
    argv(name, *TRAIN, *flag.split(), says=says, files="corpus.txt")


setting("a flag that does not exist", "--learning-rat=1", "--learning-rat", "Did you mean")
setting("a flag without its value", "--learning-rate", "--learning-rate", "headswap pretrain --help")
setting("a word where a number is needed", "--batch-size=many", "--batch-size", "many")
setting("a broken number", "--learning-rate=1e", "--learning-rate", "1e")
setting("a rate of zero", "--learning-rate=0", "--learning-rate", "greater than 0")
setting("a negative rate", "--learning-rate=-0.1", "--learning-rate", "greater than 0")
setting("a rate that is nan", "--learning-rate=nan", "--learning-rate")
setting("a rate that is infinite", "--learning-rate=inf", "--learning-rate", "finite")
setting("no steps", "--max-steps=0", "--max-steps", "greater than or equal to 1")
setting("a batch of nothing", "--batch-size=0", "--batch-size", "greater than or equal to 1")
setting("half a batch", "--batch-size=1.5", "--batch-size", "1.5")
setting("negative warm-up", "--warmup-steps=-1", "--warmup-steps", "greater than or equal to 0")
setting("infinite warm-up", "--warmup-steps=inf", "--warmup-steps", "finite")
setting("a decay rate above one", "--adam-beta1=1.5", "--adam-beta1", "less than")
setting("a negative seed", "--seed=-1", "--seed", "greater than or equal to 0")
setting("dropout above one", "--dropout=1.5", "--dropout", "less than")
setting("a held-out share above a half", "--held-out-fraction=0.9", "--held-out-fraction", "less than or equal to 0.5")
setting("rows of one token", "--max-length=1", "--max-length", "greater than or equal to 2")
setting("an unknown preset", "--preset=smal", "--preset", "'small'")
setting("an unknown device", "--device=tpu", "--device", "'cuda'")
setting("an unknown precision", "--precision=fp8", "--precision", "'bf16'")
setting("an unknown schedule", "--lr-scheduler-type=step", "--lr-scheduler-type", "'cosine'")
setting("an unknown layout", "--layout=columns", "--layout", "'packed'")
setting("an unknown objective", "--objective=reverse", "--objective")
setting("an unknown document unit", "--documents=page", "--documents", "'paragraph'")
setting("no threads", "--threads=0", "--threads", "greater than or equal to 1")
setting(
    "a width that the heads do not divide", "--hidden-size=30 --num-attention-heads=4", "--hidden-size 30", "30", "4"
)
setting("a vocabulary too small", "--vocab-size=10", "--vocab-size", "greater than or equal to 64")
setting("two limits", "--max-steps=5 --max-minutes=1", "--max-steps and --max-minutes exclude each other", "Give one")
setting("an invalid bound for nan", "--on-nan=skip:0", "--on-nan", "skip:N")
setting(
    "overwrite and resume",
    "--overwrite --resume",
    "--overwrite and --resume are both given",
    "Use --overwrite to replace",
)
setting("a tokenizer that does not exist", "--tokenizer=tok.json", "The tokenizer tok.json does not exist")
setting("a tokenizer that is a text file", "--tokenizer=corpus.txt", "corpus.txt", "line 1")
setting(
    "settings of a tokenizer that is not trained", "--tokenizer=store --vocab-size=400", "--vocab-size cannot be set"
)
argv("an unknown verb", "pretrian", says=("'pretrian' is not a command", "Did you mean 'pretrain'?"))
argv("no folder to write", "pretrain", "corpus.txt", says=("--out", "headswap pretrain --help"), files="corpus.txt")
argv("an extra argument", "finetune", "extra", "--out=out", says=("'extra' is not expected", "--help"))
argv("a shape for a base that has one", "finetune", "--base=base", "--train=train.csv", "--out=out", "--hidden-size=16",
     files="base train.csv", says=("--hidden-size: the base has its own", "Remove the setting"))  # fmt: skip
argv("a longer text than the base reads", "finetune", "--base=base", "--train=train.csv", "--out=out",
     "--max-length=9999", files="base train.csv", says=("--max-length is 9999", "the base reads at most"))  # fmt: skip
argv("an empty folder as output", *TRAIN[:2], "--out=", says=("--out",), files="corpus.txt")
argv(
    "a vocabulary of nothing to count", "params", "--vocab-size=0", says=("--vocab-size 0 is not allowed", "at least 1")
)
argv("nothing to examine", "doctor", says=("Nothing is given to check", "Pass a bundle"))
argv("a key that the cache has not", "cache", "rm", "0123", says=("'0123' is not in the cache", "headswap cache"))


# Output folders


@case("a file as output folder", "--out notes.txt is a file", "Give a folder")
def _(folder: Path, good: Good) -> list[str]:
    good.copy("corpus.txt", folder)
    (folder / "notes.txt").write_text("mine")
    return ["pretrain", "corpus.txt", "--out=notes.txt"]


@case("an output folder that holds something", "--out shelf is not empty", "Choose another folder")
def _(folder: Path, good: Good) -> list[str]:
    good.copy("corpus.txt", folder)
    (folder / "shelf").mkdir()
    (folder / "shelf" / "notes.txt").write_text("mine")
    return ["pretrain", "corpus.txt", "--out=shelf"]


@case("overwriting what no run made", "would remove 'notes.txt' from shelf", "Move it away first")
def _(folder: Path, good: Good) -> list[str]:
    good.copy("corpus.txt", folder)
    (folder / "shelf").mkdir()
    (folder / "shelf" / "notes.txt").write_text("mine")
    return ["pretrain", "corpus.txt", "--out=shelf", "--overwrite"]


@case(
    "an output folder that holds the corpus", "--out shelf contains the input shelf/corpus.txt", "Choose another folder"
)
def _(folder: Path, good: Good) -> list[str]:
    (folder / "shelf").mkdir()
    good.copy("corpus.txt", folder / "shelf")
    return ["pretrain", "shelf/corpus.txt", "--out=shelf", "--overwrite"]


@case("an output folder below a file", "--out notes.txt/run cannot be written to", "Choose a folder that can")
def _(folder: Path, good: Good) -> list[str]:
    good.copy("corpus.txt", folder)
    (folder / "notes.txt").write_text("mine")
    return ["pretrain", "corpus.txt", "--out=notes.txt/run"]


# Recipes


def recipe(name: str, content: bytes | str, *says: str, verb: str = "pretrain") -> None:
    """Add a run from a recipe of this content."""

    def make(folder: Path, good: Good) -> list[str]:
        good.copy("corpus.txt", folder)
        (folder / "recipe.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
        own = ["corpus.txt"] if verb == "pretrain" else ["--base=scratch"]
        return [verb, *own, "--config=recipe.toml", "--out=out"]

    CASES.append(Case(name, make, says))


recipe("a recipe that is not TOML", "[training\n", "The recipe recipe.toml is not valid TOML", "line 1")
recipe("a recipe with a key twice", "[training]\nseed = 1\nseed = 2\n", "recipe.toml is not valid TOML", "line 3")
recipe("a recipe that is not UTF-8", b'[training]\nx = "\xe9"\n', "The recipe recipe.toml is not UTF-8 text")
recipe("a recipe with an unknown section", "[trainings]\nseed = 1\n", "trainings is not a setting (recipe.toml)",
       "Did you mean 'training'?")  # fmt: skip
recipe("a recipe with an unknown key", "[training]\nlearning_rat = 1\n", "training.learning_rat is not a setting",
       "(recipe.toml)", "Did you mean 'learning_rate'?")  # fmt: skip
recipe(
    "a recipe with a wrong type", '[training]\nbatch_size = "many"\n', "training.batch_size = 'many'", "(recipe.toml)"
)
recipe("a recipe with a value out of range", "[training]\nbatch_size = 0\n", "training.batch_size = 0", "(recipe.toml)")
recipe("a recipe with a number as section", "training = 3\n", "training = 3 is not allowed (recipe.toml)")
recipe(
    "a recipe of another verb", 'verb = "finetune"\n', "verb = 'finetune' is not allowed (recipe.toml)", "'pretrain'"
)
recipe("a recipe with two limits", "[training]\nmax_tokens = 5\nmax_minutes = 1\n", "exclude each other", "Give one")
recipe("a recipe with an infinite number", "[training]\nlearning_rate = inf\n", "training.learning_rate", "finite")
recipe("a recipe that is empty for finetune", "", "No training set is given", verb="finetune")
argv("a recipe that does not exist", *TRAIN, "--config=recipes.toml", says=("The recipe recipes.toml does not exist",),
     files="corpus.txt")  # fmt: skip


@case("a recipe that is a folder", "The recipe shelf is a folder", "Give the .toml file inside it")
def _(folder: Path, good: Good) -> list[str]:
    good.copy("corpus.txt", folder)
    (folder / "shelf").mkdir()
    return ["pretrain", "corpus.txt", "--config=shelf", "--out=out"]


# Bundles


def damaged_bundle(name: str, *says: str, words: tuple[str, ...] = ("predict", "bundle", "a text")) -> Any:
    """Add a command on a damaged bundle of a classifier."""

    def add(damage: Callable[[Path], object]) -> None:
        def make(folder: Path, good: Good) -> list[str]:
            damage(good.copy("bundle", folder))
            return list(words)

        CASES.append(Case(name, make, says))

    return add


def edit_weights(bundle: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the tensors of a bundle."""
    state = load_file(bundle / "model.safetensors")
    change(state)
    save_file(state, bundle / "model.safetensors")


class Trap:
    """A pickle that creates a file if it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path("sprung").touch, ()


def move_out(bundle: Path, name: str) -> None:
    """Replace a file of the bundle by a link to a file outside."""
    (bundle / name).rename(bundle.parent / f"outside-{name}")
    (bundle / name).symlink_to(f"../outside-{name}")


RESTORE = "Restore"
damaged_bundle("bundle without config", "bundle is neither a bundle nor a run folder: it has no config.json")(
    lambda bundle: (bundle / "config.json").unlink()
)
damaged_bundle("bundle with a truncated config", "bundle/config.json is not valid JSON", RESTORE)(
    lambda bundle: (bundle / "config.json").write_text('{"model_type":')
)
damaged_bundle("bundle whose config is a list", "bundle/config.json", "not an object")(
    lambda bundle: (bundle / "config.json").write_text("[]")
)
damaged_bundle("bundle whose config is nested deeply", "bundle/config.json", "nested too deeply")(
    lambda bundle: (bundle / "config.json").write_text("[" * 100_000)
)
damaged_bundle("bundle of another library", "describes a model of type 'bert', not a headswap bundle")(
    lambda bundle: edit_json(bundle / "config.json", model_type="bert")
)
damaged_bundle("bundle of a later format", "bundle/config.json has format 99", "reads 1")(
    lambda bundle: edit_json(bundle / "config.json", headswap_format=99)
)
damaged_bundle("bundle without a width", "hidden_size", "bundle/config.json")(
    lambda bundle: edit_json(bundle / "config.json", hidden_size=None)
)
damaged_bundle("bundle of an enormous width", "bundle/config.json", "hidden_size")(
    lambda bundle: edit_json(bundle / "config.json", hidden_size=1 << 40)
)
damaged_bundle("bundle with a text as width", "hidden_size", "bundle/config.json")(
    lambda bundle: edit_json(bundle / "config.json", hidden_size="wide")
)
damaged_bundle("bundle with an unknown head", "head", "bundle/config.json")(
    lambda bundle: edit_json(bundle / "config.json", head="wings")
)
damaged_bundle("bundle with an unknown direction", "direction", "bundle/config.json")(
    lambda bundle: edit_json(bundle / "config.json", direction="upwards")
)
damaged_bundle("bundle with a label missing", "id2label does not name the 2 labels", "config.json")(
    lambda bundle: edit_json(bundle / "config.json", id2label={"0": "neg"})
)
damaged_bundle("bundle whose labels are a list", "id2label does not name the 2 labels", "config.json")(
    lambda bundle: edit_json(bundle / "config.json", id2label=["neg", "pos"])
)
damaged_bundle("bundle whose labels are numbers", "id2label", "config.json")(
    lambda bundle: edit_json(bundle / "config.json", id2label={"0": 1, "1": None})
)
damaged_bundle("bundle without labels", "id2label does not name", "config.json")(
    lambda bundle: edit_json(bundle / "config.json", id2label=None)
)
damaged_bundle("bundle with a broken head shape", "classifier", "config.json")(
    lambda bundle: edit_json(bundle / "config.json", classifier=3)
)
damaged_bundle("bundle without weights", "bundle/model.safetensors does not exist", RESTORE)(
    lambda bundle: (bundle / "model.safetensors").unlink()
)
damaged_bundle("bundle with truncated weights", "bundle/model.safetensors is damaged", RESTORE)(
    lambda bundle: (bundle / "model.safetensors").write_bytes((bundle / "model.safetensors").read_bytes()[:-500])
)
damaged_bundle("bundle whose weights are empty", "bundle/model.safetensors is damaged", RESTORE)(
    lambda bundle: (bundle / "model.safetensors").write_bytes(b"")
)
damaged_bundle("bundle whose weights claim a huge header", "bundle/model.safetensors is damaged", RESTORE)(
    lambda bundle: (bundle / "model.safetensors").write_bytes((1 << 60).to_bytes(8, "little") + b"{}")
)
damaged_bundle("bundle whose weights are a pickle", "model.safetensors is damaged or not a safetensors file")(
    lambda bundle: (bundle / "model.safetensors").write_bytes(pickle.dumps(Trap()))
)
damaged_bundle("bundle with a pickle in place of weights", "model.safetensors does not exist", "never unpickled")(
    lambda bundle: (bundle / "model.safetensors").rename(bundle / "pytorch_model.bin")
)
damaged_bundle("bundle with a tensor missing", "the tensor head.output.bias is missing", RESTORE)(
    lambda bundle: edit_weights(bundle, lambda state: state.pop("head.output.bias"))
)
damaged_bundle("bundle with a tensor of another shape", "head.output.bias has shape (1,)", RESTORE)(
    lambda bundle: edit_weights(bundle, lambda state: state.update({"head.output.bias": state["head.output.bias"][:1]}))
)
damaged_bundle("bundle with a tensor of whole numbers", "head.output.bias has the dtype int64", RESTORE)(
    lambda bundle: edit_weights(
        bundle, lambda state: state.update({"head.output.bias": state["head.output.bias"].long()})
    )
)
damaged_bundle("bundle without tokenizer", "bundle", "tokenizer.json")(
    lambda bundle: (bundle / "tokenizer.json").unlink()
)
damaged_bundle("bundle with a truncated tokenizer", "bundle/tokenizer.json is not valid JSON", RESTORE)(
    lambda bundle: (bundle / "tokenizer.json").write_text('{"model":')
)
damaged_bundle("bundle with an invalid tokenizer", "bundle/tokenizer.json is not a tokenizer")(
    lambda bundle: (bundle / "tokenizer.json").write_text("{}")
)
damaged_bundle(
    "bundle with weights outside it", "bundle/model.safetensors is a link out of the bundle", "Copy the file"
)(lambda bundle: move_out(bundle, "model.safetensors"))
damaged_bundle(
    "bundle with a tokenizer outside it", "bundle/tokenizer.json is a link out of the bundle", "Copy the file"
)(lambda bundle: move_out(bundle, "tokenizer.json"))
damaged_bundle("bundle with a config outside it", "bundle/config.json is a link out of the bundle", "Copy the file")(
    lambda bundle: move_out(bundle, "config.json")
)
damaged_bundle("a damaged base for finetune", "bundle/model.safetensors is damaged", RESTORE,
              words=("finetune", "--base=bundle", "--train=train.csv", "--out=out"))(
    lambda bundle: [(bundle / "model.safetensors").write_bytes(b"x"), (bundle.parent / "train.csv").write_text(CSV)]
)  # fmt: skip
argv(
    "a bundle that does not exist",
    "predict",
    "reviewer-2",
    "a text",
    says=("reviewer-2 does not exist", "Give a bundle"),
)
argv("a bundle that is a file", "predict", "corpus.txt", "a text", files="corpus.txt",
     says=("corpus.txt is neither a bundle nor a run folder",))  # fmt: skip
argv("a run that has not finished", "generate", "unfinished", files="unfinished",
     says=("unfinished is a run that has not finished", "Finish it with --resume"))  # fmt: skip
argv("labels from a language model", "predict", "base", "a text", files="base", says=("base", "finetune"))
argv("text from a classifier", "generate", "bundle", "a text", files="bundle", says=("bundle", "predict"))
argv(
    "a bundle that does not exist for the doctor", "doctor", "nothing", says=("nothing does not exist", "Give a bundle")
)


# Resumed runs


def damaged_run(name: str, *says: str, flags: tuple[str, ...] = (), may_fill_cache: bool = False) -> Any:
    """Add a damaged, unfinished pre-training that is resumed."""

    def add(damage: Callable[[Path], object]) -> None:
        def make(folder: Path, good: Good) -> list[str]:
            good.copy("corpus.txt", folder)
            damage(good.copy("unfinished", folder))
            names = {flag.split("=")[0] for flag in flags}
            kept = [flag for flag in UNFINISHED if flag.split("=")[0] not in names]
            return ["pretrain", "corpus.txt", "--out=unfinished", "--resume", *kept, *flags]

        CASES.append(Case(name, make, says, may_fill_cache=may_fill_cache))

    return add


UNFINISHED = [*SHAPE, "--max-steps=6", "--save-steps=2", "--logging-steps=1", "--batch-size=8"]


def nothing(run: Path) -> None:
    """Change nothing."""


damaged_run("another seed", "training.seed was 42 and is now 7", "Use the old ones", flags=("--seed=7",))(nothing)
damaged_run("another width and rate", "model.hidden_size was 16 and is now 32", "training.learning_rate was",
           flags=("--hidden-size=32", "--learning-rate=0.5"))(nothing)  # fmt: skip
damaged_run("more steps under a schedule", "training.max_steps was 6 and is now 9", "cosine schedule",
           flags=("--max-steps=9",))(nothing)  # fmt: skip
damaged_run(
    "another corpus", "The corpus", "changed since unfinished was started", "Restore the files", may_fill_cache=True
)(lambda run: (run.parent / "corpus.txt").write_text("all of it is new\nall of it indeed\n" * 20))
damaged_run("checkpoints without a recipe", "has checkpoints and no recipe.toml", "Restore recipe.toml")(
    lambda run: (run / "recipe.toml").unlink()
)
damaged_run("a damaged recipe", "unfinished/recipe.toml is not valid TOML")(
    lambda run: (run / "recipe.toml").write_text("[training")
)
damaged_run("a damaged data.json", "unfinished/data.json is not valid JSON", RESTORE)(
    lambda run: (run / "data.json").write_text("{")
)
damaged_run("a data.json that is a list", "unfinished/data.json")(lambda run: (run / "data.json").write_text("[]"))
argv("another verb's run", "finetune", "--base=scratch", "--train=train.csv", "--out=unfinished", "--resume",
     files="unfinished train.csv", says=("--out unfinished holds a run of headswap pretrain",))  # fmt: skip


# Prompts and texts

argv("a blank text", "predict", "bundle", " ", files="bundle", says=("blank",))
argv("texts and a file", "predict", "bundle", "a", "--file=corpus.txt", files="bundle corpus.txt",
     says=("Texts and --file are both given", "Give one"))  # fmt: skip
argv("a file of texts that does not exist", "predict", "bundle", "--file=texts.txt", files="bundle",
     says=("texts.txt does not exist",))  # fmt: skip
argv("texts from empty standard input", "predict", "bundle", "-", files="bundle", stdin=b"",
     says=("Standard input has no text",))  # fmt: skip
argv("standard input that is not UTF-8", "predict", "bundle", "-", files="bundle", stdin=b"\xe9t\xe9\n",
     says=("Standard input, line 1", "UTF-8"))  # fmt: skip
argv("a column of plain text", "predict", "bundle", "--file=corpus.txt", "--text-column=text",
     files="bundle corpus.txt", says=("--text-column is 'text', but corpus.txt has no columns",))  # fmt: skip
argv("a text that is half a character", "predict", "bundle", "a\udcffb", files="bundle", says=("U+DCFF",))
argv("standard input with a NUL", "predict", "bundle", "-", files="bundle", stdin=b"fine\na\0b\n",
     says=("Standard input, line 2: a NUL byte", "iconv"))  # fmt: skip
argv("a prompt that is half a character", "generate", "base", "a\udcffb", files="base", says=("U+DCFF", "UTF-8"))
argv("a negative temperature", "generate", "base", "a", "--temperature=-1", files="base", says=("--temperature",))
argv(
    "an infinite temperature",
    "generate",
    "base",
    "a",
    "--temperature=inf",
    files="base",
    says=("--temperature", "finite"),
)
argv(
    "a share above one", "generate", "base", "a", "--temperature=1", "--top-p=2", files="base", says=("--top-p", "less")
)
argv(
    "no tokens to be generated", "generate", "base", "a", "--max-new-tokens=0", files="base", says=("--max-new-tokens",)
)


@case("a file of texts with a blank line", "texts.txt has no text in line 2", "Remove blank lines, or fill them")
def _(folder: Path, good: Good) -> list[str]:
    good.copy("bundle", folder)
    (folder / "texts.txt").write_text("a\n\nb\n")
    return ["predict", "bundle", "--file=texts.txt"]


@case("labels that the classifier does not have", "other.csv, line 2", "'maybe'")
def _(folder: Path, good: Good) -> list[str]:
    good.copy("bundle", folder)
    (folder / "other.csv").write_text("text,label\na b,maybe\n")
    return ["evaluate", "bundle", "other.csv"]


# Tokenizers and stores

argv("a tokenizer that would replace another file", "tokenizer", "corpus.txt", "--out=train.csv",
     files="corpus.txt train.csv", says=("train.csv",))  # fmt: skip
argv("a tokenizer of an unknown kind", "tokenizer", "corpus.txt", "--out=t.json", "--kind=bytes", files="corpus.txt",
     says=("--kind", '"bpe"'))  # fmt: skip
argv("a store that is there already", "store", "corpus.txt", "--tokenizer=store", "--out=store",
     files="corpus.txt store", says=("--out store already exists", "Choose another name"))  # fmt: skip
argv("a store without a tokenizer", "store", "corpus.txt", "--out=new", files="corpus.txt", says=("--tokenizer",))
argv("a store of an empty corpus", "store", "empty.txt", "--tokenizer=store", "--out=new", files="store",
     says=("empty.txt does not exist",))  # fmt: skip


@case("a dictionary of the lab with a broken line", "dict.txt", "line 2")
def _(folder: Path, good: Good) -> list[str]:
    good.copy("corpus.txt", folder)
    (folder / "dict.txt").write_text("the 10\nfilm\n")
    return ["pretrain", "corpus.txt", "--tokenizer=dict.txt", "--out=out", "--max-steps=1", *SHAPE]


@case("a tokenizer of another library", "other.json has no", "headswap tokenizer")
def _(folder: Path, good: Good) -> list[str]:
    import tokenizers

    good.copy("corpus.txt", folder)
    tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]")).save(
        str(folder / "other.json")
    )
    return ["pretrain", "corpus.txt", "--tokenizer=other.json", "--out=out", "--max-steps=1", *SHAPE]


# Adapting, filling in masks, embedding, merging

argv("adapting nothing", "adapt", "--out=out", says=("No base is given", "Name the bundle"))
argv("adapting without text", "adapt", "base", "--out=out", files="base", says=("No corpus is given", "Name files"))
argv("adapting a base that does not exist", "adapt", "bse", "corpus.txt", "--out=out", files="corpus.txt base",
     says=("bse does not exist", "Give a bundle"))  # fmt: skip
argv("adapting on text that does not exist", "adapt", "base", "corpsu.txt", "--out=out", files="base corpus.txt",
     says=("corpsu.txt does not exist", "Did you mean 'corpus.txt'?"))  # fmt: skip
argv("adapting a classifier", "adapt", "bundle", "corpus.txt", "--out=out", files="bundle corpus.txt", says=("bundle",))
argv("filling in with a causal model", "fill", "base", "a <mask> film", files="base", says=("base", "masked"))
argv("filling in with a classifier", "fill", "bundle", "a <mask> film", files="bundle", says=("bundle", "masked"))
argv(
    "no words to be shown", "fill", "base", "a <mask> film", "--top-k=0", files="base", says=("--top-k 0", "at least 1")
)
argv("embedding a blank text", "embed", "base", " ", files="base", says=("blank",))
argv(
    "embedding by an unknown pooling",
    "embed",
    "base",
    "a",
    "--pooling=median",
    files="base",
    says=("--pooling", "mean"),
)
argv("embedding half a character", "embed", "base", "a\udcffb", files="base", says=("U+DCFF", "UTF-8"))
argv("merging a model without adapters", "merge", "bundle", "--out=out", files="bundle",
     says=("bundle has no LoRA adapters", "nothing to merge"))  # fmt: skip
argv("merging into a folder that is there", "merge", "bundle", "--out=base", files="bundle base",
     says=("--out base already exists", "Choose another name"))  # fmt: skip
setting("a share of masks above one", "--objective=masked --mlm-probability=1.5", "--mlm-probability", "less than")
setting("a share of masks for the next token", "--mlm-probability=0.2", "--mlm-probability")


# Studies

STUDY = ("study", "--corpus=corpus.txt", "--train=train.csv", "--out=out")
argv("a study of nothing", "study", "--out=out", says=("No training set is given", "--train FILE"))
argv(
    "a study of a base without text",
    "study",
    "--train=train.csv",
    "--test=train.csv",
    "--arms=pretrained",
    "--out=out",
    files="train.csv",
    says=("needs a corpus", "Pass --corpus"),
)
argv("a study of text that does not exist", "study", "--corpus=corpsu.txt", "--train=train.csv", "--test=train.csv",
     "--out=out", files="corpus.txt train.csv", says=("corpsu.txt does not exist",))  # fmt: skip
argv("a study of labels that are not there", "study", "--corpus=corpus.txt", "--train=trian.csv", "--test=train.csv",
     "--out=out", files="corpus.txt train.csv", says=("trian.csv does not exist",))  # fmt: skip
argv("a study without seeds", *STUDY, "--test=train.csv", "--seeds=0", files="corpus.txt train.csv", says=("--seeds",))
argv("a study with an invalid budget", *STUDY, "--test=train.csv", "--budgets=many", files="corpus.txt train.csv",
     says=("many",))  # fmt: skip
argv("a study with an unknown arm", *STUDY, "--test=train.csv", "--arms=magic", files="corpus.txt train.csv",
     says=("magic",))  # fmt: skip
