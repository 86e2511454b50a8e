"""`headswap store`."""

from pathlib import Path
from typing import Annotated, Literal

from headswap.cli.flags import Data, Output, OutputFlags, switch
from headswap.data.config import ReadSettings


def store(
    *corpus: str,
    tokenizer: str,
    out: Path,
    side: tuple[Literal["word_starts", "sentence_starts"], ...] = (),
    overwrite: Annotated[bool, switch("Replace the store if it exists.")] = False,
    read: Annotated[ReadSettings | None, Data] = None,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Encode a corpus as a token store, a folder of token ids.

    headswap pretrain can use a token store on any machine. The text is not needed and not encoded again.

    Example: headswap store reviews.txt --tokenizer tokenizer.json --out reviews.store

    Parameters
    ----------
    corpus
        Text files, folders, glob patterns, a named data set (see headswap datasets), or - for standard input.
    tokenizer
        A tokenizer.json, a bundle or run folder, an installed base (box:NAME), or a dict.txt (sentencepiece
        pieces, one per line).
    out
        Folder of the token store.
    side
        Extra data to store with the tokens: word_starts (needed for --mask-unit word and span) or sentence_starts
        (needed for masked+nsp and masked+sop). Repeat the flag for both.
    """
    from headswap.cli.display import print_json, start_messages
    from headswap.core.errors import SettingError
    from headswap.core.outputs import check_folder
    from headswap.data.documents import files_read, read_documents
    from headswap.tokens.store import LAYOUT, build_store
    from headswap.tokens.tokenizer import Tokenizer

    console = start_messages(quiet=flags.quiet)
    if not corpus:
        raise SettingError("No corpus is given. Pass files, folders, a named data set, or - for standard input.")
    reads = [*corpus, *map(str, files_read(corpus)), tokenizer]
    check_folder(out, LAYOUT, overwrite=overwrite, reads=reads, may_be_inside=True)
    built = build_store(read_documents(corpus, read or ReadSettings()), Tokenizer.load(tokenizer), out, side=side)
    if flags.json:
        print_json({"path": str(out), "num_documents": built.num_documents, "num_tokens": built.num_tokens})
    elif not flags.quiet:
        console.print(f"{out}: {built.num_documents:,} documents, {built.num_tokens:,} tokens.")
