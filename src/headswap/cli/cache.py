"""`headswap cache`."""

from typing import Annotated, Literal

from headswap.cli.flags import Output, OutputFlags


def cache(
    action: Literal["ls", "rm"] = "ls",
    *keys: str,
    all: bool = False,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """List the cached token stores and tokenizers, or remove some (or --all) of them.

    Example: headswap cache rm --all

    Parameters
    ----------
    action
        ls lists, rm removes.
    keys
        Keys to remove, as ls shows them.
    all
        Remove everything that headswap wrote into the cache. Other files are left and listed.
    """
    from headswap.cli.display import print_json, print_table, start_messages
    from headswap.core.errors import SettingError, listed
    from headswap.data.content_hash import cache_folder
    from headswap.tokens.cache_entries import clear_cache, list_cache

    console = start_messages(quiet=flags.quiet)
    if action == "rm":
        if not keys and not all:
            raise SettingError("Say what to remove: keys as headswap cache lists them, or --all.")
        done = clear_cache(None if all else keys)
        if flags.json:
            left = {"foreign": list(done.foreign), "being_built": list(done.being_built)}
            print_json({"freed_bytes": done.num_bytes, **left})
            return
        console.print(f"Freed {done.num_bytes / 1e6:.1f} MB.")
        if done.foreign:
            told = f"Left in {cache_folder()}: {listed(done.foreign)}, which headswap did not write."
            console.print(told, markup=False)
        if done.being_built:
            told = f"Left in {cache_folder()}: {listed(done.being_built)}, which may still be written."
            console.print(told, markup=False)
        return
    entries = list_cache()
    if flags.json:
        print_json({"folder": str(cache_folder()), "entries": [entry.as_json() for entry in entries]})
        return
    rows = [(entry.key, entry.kind, f"{entry.num_bytes / 1e6:.1f} MB", entry.summary) for entry in entries]
    print_table(f"Cache in {cache_folder()}", ("key", "kind", "size", "what"), rows)
