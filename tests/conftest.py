"""What all suites share."""

import pytest
from hypothesis import settings

from tests.support.postgres_databases import close_databases

# How long an example takes says more about the machine than about the code.
settings.register_profile("skep", deadline=None, print_blob=True)
settings.load_profile("skep")


def pytest_sessionfinish(session: pytest.Session) -> None:
    close_databases()
