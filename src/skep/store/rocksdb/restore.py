"""Copies a backup to a new directory, and reads all of the copy."""

import shutil
from collections import deque
from itertools import starmap
from pathlib import Path

from skep.errors import Invalid
from skep.store.rocksdb import segment_codec as columns
from skep.store.rocksdb.database import Database


def restore(backup: Path, path: Path) -> None:
    """Copy ``backup`` to ``path``, which must not exist, and check every entry of the copy.

    Raises ``Corrupted`` if any of it is damaged; then nothing is left at ``path``.
    """
    if not (backup / "CURRENT").is_file():
        raise Invalid("backup", f"{backup} does not hold a store")
    if path.exists():
        raise Invalid("path", f"{path} exists already")
    try:
        shutil.copytree(backup, path)
        path.chmod(0o700)
        _read_all(path)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


def _read_all(path: Path) -> None:
    database = Database(path)
    try:
        deque(database.scan(b"", b"\xff"), maxlen=0)
        everything = database.scan_segments(b"", b"\xff" * 17)
        deque(starmap(columns.decode, everything), maxlen=0)
    finally:
        database.close()
