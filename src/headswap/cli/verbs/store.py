"""`headswap store`."""

from pathlib import Path
from typing import Annotated, Literal

from headswap.cli.flags import Data, Output, OutputFlags, switch
from headswap.data.config import ReadSettings

DEFAULT_SHARD_MB = 256


def store(
    *corpus: str,
    tokenizer: str,
    out: Path,
    side: tuple[Literal["word_starts", "sentence_starts"], ...] = (),
    drop_duplicates: Literal["keep", "exact", "near"] = "keep",
    shard_mb: float | None = None,
    executor: str = "local",
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
        Text files, folders, glob patterns, addresses such as s3://BUCKET/FOLDER, a named data set (see headswap
        datasets), or - for standard input.
    tokenizer
        A tokenizer.json, a bundle or run folder, an installed base (box:NAME), or a dict.txt (sentencepiece
        pieces, one per line).
    out
        Folder of the token store.
    side
        Extra data to store with the tokens: word_starts (needed for headswap pretrain --mask-unit word and span) or
        sentence_starts (needed for the objectives masked+nsp and masked+sop). Repeat the flag for both.
    drop_duplicates
        Which repeated documents are left out: keep (none), exact (those equal to an earlier document, apart from case
        and white space), or near (also those whose sets of word trigrams have a Jaccard similarity of at least 0.8 with
        that of an earlier document). With exact or near the store is built in shards.
    shard_mb
        Build the store in shards of about this many megabytes of files. The same command finishes a store that was
        interrupted. [default: 256 if --executor is not local or --drop-duplicates is not keep, otherwise one store
        without shards]
    executor
        Where shards are built: local (this process), ray (a Ray cluster that is started on this machine) or
        ray:ADDRESS (a running Ray cluster). See docs/scale.md.
    """
    from headswap.cli.display import print_json, start_messages
    from headswap.core.errors import SettingError
    from headswap.core.outputs import check_folder
    from headswap.data.documents import files_read, read_documents
    from headswap.tokens.store import OWN_FILES, build_store
    from headswap.tokens.tokenizer import Tokenizer

    console = start_messages(quiet=flags.quiet)
    if not corpus:
        raise SettingError("No corpus is given. Pass files, folders, a named data set, or - for standard input.")
    settings, found = read or ReadSettings(), Tokenizer.load(tokenizer)
    if shard_mb is None and (executor != "local" or drop_duplicates != "keep"):
        shard_mb = DEFAULT_SHARD_MB
    if shard_mb is None:
        reads = [*corpus, *map(str, files_read(corpus)), tokenizer]
        check_folder(out, OWN_FILES, overwrite=overwrite, reads=reads, may_be_inside=True)
        built = build_store(read_documents(corpus, settings), found, out, side=side)
    else:
        from headswap.tokens.sharded_store import OWN_FILES as SHARDED
        from headswap.tokens.sharded_store import build_sharded_store

        check_folder(out, SHARDED, overwrite=True, reads=[*corpus, tokenizer], may_be_inside=True)
        if shard_mb <= 0:
            raise SettingError(f"shard_mb = {shard_mb} is not allowed: it must be above 0.")
        built = build_sharded_store(
            corpus, settings, found, out, shard_bytes=int(shard_mb * 1e6), duplicates=drop_duplicates, side=side,
            executor=executor, overwrite=overwrite,
        )  # fmt: skip
    counts = {"num_documents": built.num_documents, "num_tokens": built.num_tokens}
    if "shards" in built.meta:
        counts |= {"num_shards": len(built.meta["shards"]), "num_dropped": built.meta["num_dropped"]}
    if flags.json:
        print_json({"path": str(out), **counts})
    elif not flags.quiet:
        console.print(f"{out}: {built.num_documents:,} documents, {built.num_tokens:,} tokens.")
