"""The content-addressed cache of token stores and trained tokenizers.

The key of an entry is a hash of everything it depends on: the content of the corpus, the tokenizer's fingerprint and
the options. So an outdated entry is never used, and nothing is built twice. An entry is built under a temporary name
and then renamed to its key; if two processes build the same entry, both use the one that was renamed first.
content_hash.py hashes a corpus, store.py and train_tokenizer.py build entries, cache_entries.py lists and removes them.
"""

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import tokenizers

from headswap.core.errors import InputError, SettingError
from headswap.core.files import remove_folder
from headswap.core.settings import Settings
from headswap.data.config import ReadSettings
from headswap.data.content_hash import cache_folder, corpus_hash, spooled, writable
from headswap.data.documents import find_files, read_documents
from headswap.data.remote_files import is_remote
from headswap.tokens.cache_entries import BUILDING, remove_damaged, summary_of
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.store import FORMAT_VERSION, TokenStore, build_store, check_side, is_store
from headswap.tokens.tokenizer import Tokenizer
from headswap.tokens.tokenizer_sample import SAMPLING
from headswap.tokens.train_tokenizer import train_on_corpus

log = logging.getLogger("headswap")

CACHE_VERSION = 1  # incremented when the same input gives a different result than before


def cached_store(
    sources: Sequence[str],
    settings: ReadSettings,
    tokenizer: Tokenizer,
    *,
    side: Sequence[str] = (),
    cache_dir: Path | None = None,
) -> TokenStore:
    """The token store of a corpus: the given store, the one in the cache, or a new one, which is added to the cache."""
    check_side(side)
    if given := _given_store(sources):
        return _open_given(given, settings, tokenizer, side)
    root = cache_dir or cache_folder()
    sources = spooled(sources, cache_dir=root)
    corpus = corpus_hash(sources, cache_dir=root)
    options = {"read": _own(ReadSettings, settings), "side": sorted(side)}
    key = _key("store", FORMAT_VERSION, corpus, tokenizer.fingerprint, options)
    folder = root / "stores" / key
    if (store := _intact(folder, root, _open_whole)) is not None:
        log.info("Reused the token store %s (%s).", key, summary_of(folder, "store"))
        return store
    with _building(folder, root) as temporary:
        build_store(
            read_documents(sources, settings),
            tokenizer,
            temporary,
            side=sorted(side),
            corpus_hash=corpus,
            options=options,
        )
    log.info("Built the token store %s (%s).", key, summary_of(folder, "store"))
    return TokenStore.open(folder)


def cached_tokenizer(
    sources: Sequence[str],
    read_settings: ReadSettings,
    tokenizer_settings: TokenizerSettings,
    *,
    cache_dir: Path | None = None,
) -> Tokenizer:
    """The tokenizer named in the settings, or that of a given token store, or one trained on the corpus."""
    if tokenizer_settings.tokenizer:
        return Tokenizer.load(tokenizer_settings.tokenizer)
    if given := _given_store(sources):
        return TokenStore.open(given).tokenizer()
    root = cache_dir or cache_folder()
    sources = spooled(sources, cache_dir=root)
    options = [_own(ReadSettings, read_settings), _own(TokenizerSettings, tokenizer_settings)]
    key = _key("tokenizer", tokenizers.__version__, SAMPLING, corpus_hash(sources, cache_dir=root), options)
    folder = root / "tokenizers" / key
    if (tokenizer := _intact(folder, root, Tokenizer.load)) is not None:
        log.info("Reused the tokenizer %s (%s).", key, summary_of(folder, "tokenizer"))
        return tokenizer
    with _building(folder, root) as temporary:
        copied = [str(path) for source in sources for path in (find_files([source]) if is_remote(source) else [source])]
        trained = train_on_corpus(copied, read_settings, tokenizer_settings, temporary.parent)
        trained.save(temporary / "tokenizer.json")
    log.info("Trained the tokenizer %s (%s).", key, summary_of(folder, "tokenizer"))
    return Tokenizer.load(folder)


def _given_store(sources: Sequence[str]) -> Path | None:
    stores = [source for source in sources if is_store(source)]
    if stores and len(sources) > 1:
        raise InputError(
            f"{stores[0]} is a token store, so it cannot be mixed with other sources. "
            "Give it alone, or give the texts it was built from."
        )
    return Path(stores[0]) if stores else None


def _open_whole(folder: Path) -> TokenStore:
    """Open a store and compare its contents with its checksums, so that damaged ids are never trained on."""
    store = TokenStore.open(folder)
    store.verify()
    return store


def _open_given(folder: Path, settings: ReadSettings, tokenizer: Tokenizer, side: Sequence[str]) -> TokenStore:
    store = _open_whole(folder)
    if changed := settings.not_default(ReadSettings.model_fields):
        raise SettingError(
            f"{', '.join(changed)} cannot be set: {folder} is a token store, whose texts are already tokenized."
        )
    if store.fingerprint != tokenizer.fingerprint:
        raise InputError(
            f"The token store {folder} was built with another tokenizer (fingerprint {store.fingerprint}, that of "
            f"{tokenizer.origin} is {tokenizer.fingerprint}). Give the texts instead, or build the store again "
            f"with headswap store ... --tokenizer {tokenizer.origin}."
        )
    for name in side:
        store.side(name)
    return store


def _intact(folder: Path, root: Path, load: Callable[[Path], Any]) -> Any:
    """The entry in the cache, or None; a damaged entry is reported and removed."""
    if not folder.exists():
        return None
    try:
        return load(folder)
    except InputError as problem:
        remove_damaged(folder, root)
        log.warning("Removed a damaged entry from the cache; it is built again: %s", problem)
        return None


@contextmanager
def _building(folder: Path, root: Path) -> Iterator[Path]:
    """A temporary path to build an entry at; it is renamed to `folder` unless another process did so first."""
    with writable(root):
        folder.parent.mkdir(parents=True, exist_ok=True)
        workshop = Path(tempfile.mkdtemp(prefix=BUILDING, dir=folder.parent))
    try:
        yield workshop / folder.name
        try:
            os.rename(workshop / folder.name, folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        remove_folder(workshop)
        for empty in (folder.parent, root):  # a failed build leaves no empty folders
            with suppress(OSError):
                empty.rmdir()


def _own(kind: type[Settings], settings: Settings) -> dict[str, Any]:
    """Values of the fields of `kind` only: a section of a recipe may have more, such as file names."""
    return settings.model_dump(mode="json", include=set(kind.model_fields))


def _key(*parts: Any) -> str:
    text = json.dumps([CACHE_VERSION, *parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
