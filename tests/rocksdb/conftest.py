"""Where the tests of RocksDB keep their files, and how patient hypothesis is."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is not a failure.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture
def quick_path() -> Iterator[Path]:
    """A directory in memory if there is one, for tests that open a store hundreds of times."""
    home = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="skep-test-", dir=home) as path:
        yield Path(path)
