"""`headswap tokenizer`."""

from pathlib import Path
from typing import Annotated

from headswap.cli.flags import Data, Output, OutputFlags, switch
from headswap.data.config import ReadSettings
from headswap.tokens.config import TokenizerKind


def tokenizer(
    *corpus: str,
    out: Path,
    kind: TokenizerKind = "bpe",
    vocab_size: int | None = None,
    lowercase: bool = False,
    executor: str = "local",
    overwrite: Annotated[bool, switch("Replace the file if it exists.")] = False,
    read: Annotated[ReadSettings | None, Data] = None,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Train a tokenizer on a corpus.

    Example: headswap tokenizer reviews.txt --out tokenizer.json --vocab-size 16000

    Parameters
    ----------
    corpus
        Text files, folders, glob patterns, addresses such as s3://BUCKET/FOLDER, a named data set (see headswap
        datasets), or - for standard input. If there are more than 200 MB of text, the tokenizer is trained on
        200 MB, which are spread evenly over all files.
    out
        File to write, usually tokenizer.json.
    kind
        Kind of tokenizer: bpe (byte-level BPE), unigram, wordpiece, or word (whole words).
    vocab_size
        Vocabulary size including special tokens. [default: 3 x the square root of the number of bytes of text, at least
        512 and at most 32,768]
    lowercase
        Whether the tokenizer converts all text to lower case.
    executor
        Where the files are read: local (this process), ray (a Ray cluster that is started on this machine) or
        ray:ADDRESS (a running Ray cluster). A single file, and several with at most 200 MB of text together, are always
        read in this process. See docs/scale.md.
    """
    from headswap.cli.display import print_json, start_messages
    from headswap.core.errors import SettingError
    from headswap.core.outputs import check_file
    from headswap.core.settings import validate
    from headswap.data.documents import files_read
    from headswap.data.remote_files import is_remote
    from headswap.tokens.config import TokenizerSettings
    from headswap.tokens.tokenizer import is_tokenizer
    from headswap.tokens.train_tokenizer import train_on_corpus

    console = start_messages(quiet=flags.quiet)
    if not corpus:
        raise SettingError("No corpus is given. Pass files, folders, a named data set, or - for standard input.")
    reads = files_read([source for source in corpus if not is_remote(source)])  # addresses: nothing is copied for this
    check_file(
        out, what="tokenizer", is_ours=is_tokenizer, overwrite=overwrite, reads=reads, example="tokenizer.json"
    )  # fmt: skip
    settings = validate(TokenizerSettings, {"kind": kind, "vocab_size": vocab_size, "lowercase": lowercase})
    trained = train_on_corpus(corpus, read or ReadSettings(), settings, out.parent, executor=executor)
    trained.save(out)
    if flags.json:
        print_json(
            {"path": str(out), "kind": kind, "vocab_size": trained.vocab_size, "fingerprint": trained.fingerprint}
        )
    elif not flags.quiet:
        console.print(
            f"{out}: {kind}, {trained.vocab_size:,} tokens, fingerprint {trained.fingerprint}. "
            "Decoding was checked to restore encoded text."
        )
