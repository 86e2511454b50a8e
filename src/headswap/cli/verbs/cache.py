"""`headswap cache`."""

from typing import Annotated, Literal

from headswap.cli.flags import Output, OutputFlags, switch


def cache(
    action: Literal["ls", "rm"] = "ls",
    *keys: str,
    all: Annotated[
        bool, switch("With rm: remove everything that headswap wrote into the cache. Other files are kept.")
    ] = False,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """List or remove cached token stores and tokenizers.

    Trainings store the tokenizer and the encoded corpus in the cache and use them again for the same text. The cache is
    the folder $HEADSWAP_CACHE, by default ~/.cache/headswap.

    Example: headswap cache

    Example: headswap cache rm --all

    Parameters
    ----------
    action
        ls (list the entries) or rm (remove entries).
    keys
        Keys of the entries to remove, as ls shows them.
    """
    from headswap.cli.display import print_json, print_table, start_messages
    from headswap.core.errors import SettingError, listed
    from headswap.data.content_hash import cache_folder
    from headswap.tokens.cache_entries import clear_cache, list_cache

    console = start_messages(quiet=flags.quiet)
    if action == "rm":
        if not keys and not all:
            raise SettingError("Nothing to remove is given. Pass keys, as headswap cache lists them, or --all.")
        done = clear_cache(None if all else keys)
        if flags.json:
            left = {"foreign": list(done.foreign), "being_built": list(done.being_built)}
            print_json({"freed_bytes": done.num_bytes, **left})
            return
        console.print(f"Freed {done.num_bytes / 1e6:.1f} MB.")
        if done.foreign:
            console.print(f"Kept in {cache_folder()}: {listed(done.foreign)}, which headswap did not write.")
        if done.being_built:
            console.print(
                f"Kept in {cache_folder()}: {listed(done.being_built)}, which another process may still be writing."
            )
        return
    entries = list_cache()
    if flags.json:
        print_json({"folder": str(cache_folder()), "entries": [entry.as_json() for entry in entries]})
        return
    rows = [(entry.key, entry.kind, f"{entry.num_bytes / 1e6:.1f} MB", entry.summary) for entry in entries]
    print_table(f"Cache in {cache_folder()}", ("key", "kind", "size", "content"), rows)
