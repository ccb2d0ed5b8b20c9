"""What takes a minute or more, for ``make test-long``."""

import os

import pytest

long = pytest.mark.skipif(
    not os.environ.get("SKEP_LONG"), reason="takes a minute: SKEP_LONG=1, or make test-long"
)
