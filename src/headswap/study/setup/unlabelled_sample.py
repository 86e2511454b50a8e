"""The texts without labels for consistency training: a sample of the corpus and the training texts, once per study.

All runs of a study read the same file, so a large corpus is read once. The sample depends on the texts only, not on the
seed of a run. A run leaves out the texts of its own validation set and of the test set.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headswap.core.files import write_json
from headswap.data.config import ReadSettings
from headswap.data.documents import read_documents
from headswap.data.records import Document
from headswap.finetuning.consistency import sample_documents
from headswap.study.setup.row_files import write_rows

log = logging.getLogger("headswap")
VERSION = 1
"""Part of the ids of the jobs; raised when the sample changes."""
FILE = "unlabelled.jsonl"
SEED = 0


def write_sample(folder: Path, sections: Mapping[str, Any]) -> None:
    """Write the sample and how many texts it is drawn from."""
    start = time.perf_counter()
    settings = dict(sections["corpus"])
    sources, total = settings.pop("corpus"), 0

    def counted_documents() -> Iterator[Document]:
        nonlocal total
        for document in read_documents(sources, ReadSettings(**settings)):
            total += 1
            yield document

    sample = sample_documents(counted_documents(), seed=SEED)
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / FILE, ({"text": document.text} for document in sample))
    if total > len(sample):
        log.info("consistency: a fixed random sample of %s of the %s texts.", f"{len(sample):,}", f"{total:,}")
    result = {"verb": "sample", "num_texts": total, "num_sampled": len(sample)}
    write_json(folder / "result.json", result | {"seconds": time.perf_counter() - start})
