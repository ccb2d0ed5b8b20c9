"""Changes the file of API keys while servers read it."""

import fcntl
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from skep.errors import Conflict, Invalid, NotFound
from skep.http.auth.api_key import ApiKey, check_key, read_keys


def add_key(path: Path, key: ApiKey) -> None:
    """Add an entry; creates the file if it does not exist."""
    check_key(key)
    with _locked(path) as path:
        keys = read_keys(path) if path.exists() else ()
        if any(known.id == key.id for known in keys):
            raise Conflict(f"API key {key.id!r} already exists")
        _replace(path, (*keys, key))


def revoke_key(path: Path, key_id: str) -> None:
    """Remove an entry. Servers notice within seconds."""
    with _locked(path) as path:
        keys = read_keys(path)
        left = [key for key in keys if key.id != key_id]
        if len(left) == len(keys):
            raise NotFound(f"API key {key_id!r} does not exist")
        _replace(path, left)


@contextmanager
def _locked(path: Path) -> Iterator[Path]:
    """Lock the file, with links resolved: of two concurrent changes one could restore a key that
    the other has revoked."""
    path = path.resolve()
    try:
        with _opened(path.parent) as directory:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield path
    except OSError as error:
        raise Invalid("api_keys", f"{path} cannot be written: {error.strerror}") from None


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    handle = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def _replace(path: Path, keys: Sequence[ApiKey]) -> None:
    """Replace the file atomically and durably; only its owner may read it."""
    content = msgspec.json.format(msgspec.json.encode(keys), indent=2) + b"\n"
    file, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(file, "wb") as new:
            _keep_owner(path, new.fileno())
            new.write(content)
            new.flush()
            os.fsync(new.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
    with _opened(path.parent) as directory:
        os.fsync(directory)


def _keep_owner(path: Path, file: int) -> None:
    """Keep the owner: a server that cannot read the new file would not notice a revocation."""
    with suppress(FileNotFoundError):
        old, new = os.stat(path), os.fstat(file)
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            os.fchown(file, old.st_uid, old.st_gid)
