"""Opens the store that a URL names; the only module that imports all of them."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from skep.errors import Invalid, Unavailable
from skep.store.bulk_load import Transferable
from skep.store.clock import Clock
from skep.store.memory import MemoryStore
from skep.store.protocol import Store


def open_store(url: str | Path, *, clock: Clock | None = None) -> Store:
    """Open a directory (a path or ``rocksdb:///path``), ``postgresql://…`` or ``memory://``."""
    return _open(url, clock)


def open_transferable(url: str, *, create: bool = True) -> Transferable:
    """A store that queues can be copied from or to; without ``create`` it must exist."""
    if not create and (directory := _directory(url)) and not (directory / "CURRENT").is_file():
        raise Invalid("store", f"{directory} does not hold a store")
    store = _open(url, None)
    if isinstance(store, MemoryStore):
        raise Invalid("store", "what is in memory ends with its process; name a path or a URL")
    return store


def _open(url: str | Path, clock: Clock | None) -> Transferable | MemoryStore:
    if isinstance(url, Path):
        return _open_rocksdb(url, clock)
    if not isinstance(url, str):
        raise Invalid("store", f"must be a path or a URL, not {type(url).__name__}")
    scheme, separator, rest = url.partition("://")
    if not separator:
        return _open_rocksdb(url, clock)
    if scheme == "memory" and not rest:
        return MemoryStore(clock=clock)
    if scheme == "rocksdb":
        return _open_rocksdb(_path_in(url), clock)
    if scheme in ("postgresql", "postgres"):
        return _open_postgres(url, clock)
    raise Invalid(
        "store",
        f"{scheme}:// is not known; use a path, rocksdb:///path, postgresql://… or memory://",
    )


def restore_store(backup: Path, path: Path) -> None:
    """Copy a backup to a new directory, and check the copy."""
    from skep.store.rocksdb.restore import restore  # an extra

    restore(backup, path)


def _directory(url: str) -> Path | None:
    """The directory of a store that has files of its own."""
    if "://" not in url:
        return Path(url)
    return Path(_path_in(url)) if url.startswith("rocksdb://") else None


def _path_in(url: str) -> str:
    parts = urlsplit(url)
    return unquote(parts.netloc + parts.path)


def _open_rocksdb(path: str | Path, clock: Clock | None) -> Transferable:
    # An empty path would mean the working directory of the process.
    if path == "":
        raise Invalid("store", "must name a directory or be memory://")
    try:
        from skep.store.rocksdb.store import RocksStore  # an extra
    except ImportError:
        raise Unavailable("install skep[rocksdb] to keep queues on disk") from None
    return RocksStore(Path(path), clock=clock)


def _open_postgres(url: str, clock: Clock | None) -> Transferable:
    try:
        from skep.store.postgres.store import PostgresStore  # an extra
    except ImportError:
        raise Unavailable("install skep[postgres] to keep queues in PostgreSQL") from None
    return PostgresStore(url, clock=clock)
