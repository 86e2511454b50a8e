"""The installed bases `box:reviews-en` and `box:reviews-en-2`: from IMDb's raw files to the packages in bases/.

    python benchmarks/box.py prepare IMDB_FOLDER runs/box        # clean text, overlap check, tokenizer, store, labels
    python benchmarks/box.py train runs/box runs/box-causal      # recipes/box-reviews-en.toml; repeat to resume
    python benchmarks/box.py train runs/box runs/box-masked --objective masked
    python benchmarks/box.py choose runs/box runs/box-choice runs/box-causal runs/box-masked    # on validation only
    python benchmarks/box.py pack runs/box runs/box-causal       # bf16, card, checksums, a reference loss
    python benchmarks/box.py train runs/box runs/box-2 --edition 2    # recipes/box-reviews-en-2.toml
    python benchmarks/box.py pack runs/box runs/box-2 --edition 2     # into bases/reviews-en-2

IMDB_FOLDER contains train, test and unsup.jsonl.gz. The base is trained on unsup only. Reviews that also occur in train
or test, exactly or nearly, are dropped first, and the check is repeated on the written file. Every command can be
repeated: finished work is not done again.
"""

import re
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter
from imdb import Jobs, headswap, read, write

from headswap.core.current_folder import new_python
from headswap.core.files import read_json, remove_folder, sha256_of_file, write_json
from headswap.core.random_streams import numpy_stream
from headswap.data.labelled import read_labelled
from headswap.data.overlap import NEAR, find_overlap

app = App(help=__doc__)
ROOT = Path(__file__).parent.parent
NAMES = {1: "reviews-en", 2: "reviews-en-2"}
"""Names of the bases by edition."""
VOCAB_SIZE = 8_192
NUM_TO_LEARN, NUM_TO_CHOOSE = 4_000, 2_000
MOST_BYTES = 16_000_000
BREAKS = re.compile(r"\s*(?:<br\s*/?>\s*)+", re.IGNORECASE)
Row = dict[str, str]
Edition = Literal[1, 2]
LICENCE = "MIT for the weights; no licence is stated for the IMDb texts that they were trained on"
LIMITS = (
    "English film reviews, lower-cased, and nothing else: it knows how reviews sound, not what is true; what it writes "
    "may be wrong or rude"
)
SENTENCES = (
    "This film took its time, and I was glad of every minute.",
    "A weak script and a tired cast: I left before the end.",
    "the story is simple , but the two leads make it sing .",
    "My sister laughed out loud; I looked at my watch twice.",
    "Nobody in this town talks like that, and the director never asked.",
    "If you liked the book, stay at home with the book.",
    "The camera follows her through the rain, and for once the music keeps quiet.",
    "Seven out of ten, mostly for the dog.",
)
"""Reference sentences: the shipped weights must give the recorded loss on them."""


@app.command
def prepare(imdb: Path, data: Path, /) -> None:
    """Clean the text, drop texts of train and test, and write a tokenizer, a token store and labelled files.

    `train` reads `data/base`, `choose` reads `data/choose`, the two studies read `data/study`.
    """
    base = data / "base"
    files = {f"{part}.jsonl.gz": sha256_of_file(imdb / f"{part}.jsonl.gz") for part in ("unsup", "train", "test")}
    if (base / "guard.json").exists():  # it is written last
        if read_json(base / "guard.json")["files"] != files:
            raise SystemExit(f"{data} was made from other files. Choose another folder.")
        print(f"{base} is ready already.")
        return
    remove_folder(base)
    raw = {part: read(imdb / f"{part}.jsonl.gz") for part in ("unsup", "train", "test")}
    texts = {part: [clean(row["text"]) for row in rows] for part, rows in raw.items()}
    rotten = {split: labelled_rows(f"movies:rotten-tomatoes/{split}") for split in ("train", "test")}
    others = {"train": texts["train"], "test": texts["test"]}
    others["rotten-tomatoes"] = [row["text"] for rows in rotten.values() for row in rows]
    corpus, found = without_overlap(texts["unsup"], others)
    write_all(data / "corpus.jsonl.gz", ({"text": text} for text in corpus))
    again = [row["text"] for row in read(data / "corpus.jsonl.gz")]
    _, left = without_overlap(again, others)
    if any(entry["exact_rows"] or entry["near_rows"] for entry in left):
        raise SystemExit(f"{data / 'corpus.jsonl.gz'} still contains texts of other sets: {left}")
    names = {1: "pos", 0: "neg"}
    imdb_rows = {
        part: [{"text": text, "label": names[row["label"]]} for text, row in zip(texts[part], raw[part], strict=True)]
        for part in ("train", "test")
    }
    for name, splits in (("imdb", imdb_rows), ("rotten-tomatoes", rotten)):
        for split, rows in splits.items():
            write_all(data / "study" / f"{name}-{split}.jsonl.gz", rows)
        order = numpy_stream(0, "box", name).permutation(len(splits["train"]))[: NUM_TO_LEARN + NUM_TO_CHOOSE]
        chosen = [splits["train"][row] for row in order]
        cut = 2 * len(chosen) // 3  # NUM_TO_LEARN, where there are as many
        write_all(data / "choose" / f"{name}-train.jsonl.gz", chosen[:cut])
        write_all(data / "choose" / f"{name}-validation.jsonl.gz", chosen[cut:])
    size = ["--vocab-size", VOCAB_SIZE, "--lowercase"]
    headswap("tokenizer", data / "corpus.jsonl.gz", *size, "--out", base / "tokenizer.json")
    headswap("store", data / "corpus.jsonl.gz", "--tokenizer", base / "tokenizer.json", "--out", base / "store")
    write_json(base / "guard.json", {
        "source": "IMDb, Large Movie Review Dataset (Maas et al. 2011), the 50,000 unlabelled reviews",
        "files": files,
        "similarity_from_which_texts_are_near": NEAR,
        "found": found,
        "found_in_what_was_kept": left,
        "reviews": len(texts["unsup"]),
        "reviews_kept": len(corpus),
        "bytes_kept": sum(len(text.encode()) for text in corpus),
    })  # fmt: skip
    print(f"{len(texts['unsup']):,} reviews, {len(corpus):,} kept; {base} is ready for train.")


def clean(text: str) -> str:
    """A review with a line break for each run of `<br />` tags."""
    return BREAKS.sub("\n", text).strip()


def labelled_rows(name: str) -> list[Row]:
    """A named labelled set as rows."""
    examples = read_labelled(name, text_column="text", label_column="label")
    return [{"text": example.text, "label": example.label} for example in examples]


def without_overlap(corpus: list[str], others: dict[str, list[str]]) -> tuple[list[str], list[dict]]:
    """The corpus without texts of other sets and without duplicates; and the overlap found, per set."""
    pairs = [("corpus", name) for name in (*others, "corpus")]
    found = find_overlap({"corpus": corpus, **others}, pairs=pairs)
    drop = {row for overlap in found for row in overlap.rows}
    entries = [overlap.as_json(with_texts=False) | {"examples": []} for overlap in found]
    for entry in entries:
        print(f"{entry['exact_rows']:,} of {entry['from']} also in {entry['to']}, {entry['near_rows']:,} nearly so")
    return [text for row, text in enumerate(corpus) if row not in drop], entries


def write_all(file: Path, rows: Iterable[Row]) -> None:
    """Write rows, and create the folder of the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write(file, list(rows))


def recipe_of(edition: Edition) -> Path:
    """The recipe of an edition."""
    return ROOT / "recipes" / f"box-{NAMES[edition]}.toml"


def package_of(edition: Edition) -> Path:
    """The folder of an edition's package."""
    name = NAMES[edition]
    return ROOT / "bases" / name / "src" / f"headswap_base_{name.replace('-', '_')}"


@app.command
def train(
    data: Path,
    out: Path,
    /,
    *more: Annotated[str, Parameter(allow_leading_hyphen=True)],
    edition: Edition = 1,
    objective: Literal["causal", "masked"] | None = None,
    minutes: float = 8.5,
) -> None:
    """Pre-train with the recipe for at most `minutes`; repeat to resume. Arguments after -- are passed to headswap.

    The recipe sets the length of the run. Interrupting and resuming it does not change the result.
    """
    command = new_python(
        "-m", "headswap", "pretrain", str(data / "base" / "store"), "--config", str(recipe_of(edition)),
        *(("--objective", objective) if objective else ()), "--out", str(out), "--resume",
        *(word for word in more if word != "--"),
    )  # fmt: skip
    process = subprocess.Popen(command)
    try:
        code = process.wait(timeout=minutes * 60)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # saves, and ends with 130
        code = process.wait()
    if code not in (0, 130):
        raise SystemExit(code)
    if code == 0:
        result = read_json(out / "result.json")
        print(
            f"{out}: {result['tokens'] / 1e6:.0f} M tokens in {result['seconds']:.0f} s on {result['device']}, "
            f"held-out loss {result['loss']:.4f}. It is finished."
        )
    else:
        print(f"{out} is not finished; repeat the command to resume.")


@app.command
def choose(
    data: Path,
    out: Path,
    /,
    *bases: Path,
    tasks: str = "imdb,rotten-tomatoes",
    budgets: str = "100,400,1600",
    seeds: int = 3,
    jobs: Jobs = 1,
) -> None:
    """Compare bases with 100, 400 and 1,600 labels on validation, which is part of the training sets."""
    for task in tasks.split(","):
        files = {
            "--train": data / "choose" / f"{task}-train.jsonl.gz",
            "--test": data / "choose" / f"{task}-validation.jsonl.gz",
        }
        headswap(
            "study", *(part for pair in files.items() for part in pair),
            "--arms", ",".join(("tfidf", *map(str, bases))),
            "--budgets", budgets, "--seeds", seeds, "--jobs", jobs, "--keep", "results", "--out", out / task,
            "--no-texts",
        )  # fmt: skip
        results = read_json(out / task / "results.json")
        print(
            f"\n| {task}, {results['num_test']:,} validation texts | labels | accuracy | 95 % interval, {seeds} seeds |"
        )
        print("|---|---|---|---|")
        for cell in results["cells"]:
            spread = "one seed" if cell["low"] is None else f"{cell['low']:.4f} to {cell['high']:.4f}"
            print(f"| {cell['arm']} | {cell['labels']:,} | {cell['mean']:.4f} | {spread} |", flush=True)


@app.command
def pack(data: Path, run: Path, /, *, edition: Edition = 1, out: Path | None = None) -> None:
    """Pack a finished run into the package: bf16 weights, card, checksums, metrics of the run, a reference loss."""
    from headswap.pretraining.pack import pack as pack_run

    overlap = read_json(data / "base" / "guard.json")
    kept = f"{overlap['reviews_kept']:,} of {overlap['reviews']:,} reviews, {overlap['bytes_kept'] / 1e6:.1f} MB"
    dropped = "; ".join(
        f"{entry['exact_rows']:,} also in {'the corpus itself' if entry['to'] == 'corpus' else entry['to']} and "
        f"{entry['near_rows']:,} nearly so"
        for entry in overlap["found"]
    )
    about = {
        "name": NAMES[edition],
        "data": f"{overlap['source']}: {kept}",
        "dropped from it": f"{dropped}; nothing of train, test or Rotten Tomatoes is left in it (record/guard.json)",
        **{f"sha256 of {name}": digest for name, digest in overlap["files"].items()},
        "recipe": str(recipe_of(edition).relative_to(ROOT)),
        "licence": LICENCE,
        "limits": LIMITS,
    }
    beside = [data / "base" / "guard.json"]
    packed = pack_run(
        run, out or package_of(edition), about=about, sentences=SENTENCES, beside=beside, most_bytes=MOST_BYTES
    )
    print(
        f"{packed.out}: {packed.num_bytes / 1e6:.2f} MB. Held-out loss {packed.loss:.4f} "
        f"({packed.loss_before_rounding:.4f} before rounding), {packed.reference['loss']:.4f} on the reference."
    )


if __name__ == "__main__":
    app()
