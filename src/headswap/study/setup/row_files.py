"""The files of rows in `data/` that the jobs of a study read, and the digests that identify them.

Files are found by name and no absolute path is saved, so a study that was copied or moved reads its own rows. A digest
depends on texts and labels only (for a corpus: on its files and token stores), never on names and dates.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headswap.core.errors import InputError, absent, listed, raise_problems
from headswap.core.files import atomic_file, parse_json
from headswap.core.kept_inputs import Kept, file_state
from headswap.data.content_hash import corpus_hash
from headswap.data.records import PAIR_SEPARATOR
from headswap.tokens.store import META_FILE, is_store

ROLES = ("train", "validation", "test")
CORPUS = "corpus"
TEXTS = "unlabelled"
"""The training texts that are not in the corpus, without labels: the rest of the text for adapting a base (see
unlabelled_texts.py)."""
GROUP = "group"
"""The column of groups in a file of rows."""
PLAIN = {"text", "label", GROUP}
"""The columns of single texts with one label."""
DIGESTS: Kept[str] = Kept(1_000)


def write_rows(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON object per row."""
    with atomic_file(file) as temporary, temporary.open("w", encoding="utf-8") as handle:
        handle.writelines(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def rows_digest(rows: Iterable[Mapping[str, Any]]) -> str:
    """A hash of the texts, labels and groups in their order; of all fields if there are others."""
    digest = hashlib.sha256()
    for row in rows:
        if row.keys() <= PLAIN and isinstance(row["label"], str):
            group = f"\x1f{row['group']}" if "group" in row else ""
            digest.update(f"{row['text']}\x1f{row['label']}{group}\x1e".encode())
        else:
            digest.update(f"{json.dumps(row, sort_keys=True)}\x1e".encode())
    return digest.hexdigest()[:32]


def text_of_row(row: Mapping[str, Any]) -> str:
    """The whole text of a row, as predictions identify it: of a pair both texts, of a question also the context."""
    if "tokens" in row:
        return " ".join(row["tokens"])
    if "question" in row:
        return f"{row['question']}\n{row['context']}"
    return f"{row['text']}{PAIR_SEPARATOR}{row['text_pair']}" if "text_pair" in row else str(row["text"])


def corpus_digest(sources: Sequence[str]) -> str:
    """A hash of the texts and token stores of a corpus; empty if there is no corpus."""
    if not sources:
        return ""
    stores = [source for source in sources if is_store(source)]
    parts = [corpus_hash([source for source in sources if source not in stores]), *map(store_digest, stores)]
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def store_digest(store: str) -> str:
    """The metadata of a token store, which include the checksums of its arrays."""
    return (Path(store) / META_FILE).read_text(encoding="utf-8")


def check_rows(files: Mapping[str, str], digests: Mapping[str, str]) -> None:
    """Refuse files of rows (per role) whose digest is not the recorded one."""
    problems = []
    for role, name in files.items():
        file = Path(name)
        if not file.is_file():
            problems.append(absent(file))
        elif (corpus_digest([name]) if role in (CORPUS, TEXTS) else _digest_of(file)) != digests[role]:
            problems.append(
                f"{file} does not hold the rows that this study was prepared with: its digest is not the recorded one. "
                f"Restore the file, or remove the folder {file.parent} to prepare the rows again from their sources."
            )
    raise_problems(problems)


def check_inputs(sections: Mapping[str, Mapping[str, Any]], digests: Mapping[str, str]) -> None:
    """Refuse a job whose rows or corpus have changed since it was planned."""
    data = sections.get("data", {})
    check_rows({role: data[role] for role in ROLES if role in digests and data.get(role)}, digests)
    sources = sections.get(CORPUS, {}).get(CORPUS, ())
    if TEXTS in digests:  # the last source
        check_rows({TEXTS: sources[-1]}, digests)
        sources = sources[:-1]
    if CORPUS in digests and corpus_digest(sources) != digests[CORPUS]:
        raise InputError(
            f"The corpus {listed(sources)} changed after the study had planned its jobs, so this job was not started. "
            "Run the study again with the same command: it plans new jobs for the changed corpus."
        )


def _digest_of(file: Path) -> str | None:
    """The digest of a file of rows; None if it is no such file."""
    state = file_state(file)
    if (known := DIGESTS.find(state)) is not None:
        return known
    try:
        with file.open(encoding="utf-8") as handle:
            digest = rows_digest(parse_json(line) for line in handle)
    except (ValueError, KeyError, TypeError):
        return None
    DIGESTS.add(state, digest, 1)
    return digest
