"""Hypothesis, markers and the PostgreSQL server of all suites."""

import pytest
from hypothesis import settings

from tests.support import postgres_databases
from tests.support.markers import markers_of

# The duration of an example depends on the machine, not on the code.
settings.register_profile("skep", deadline=None, print_blob=True)
settings.load_profile("skep")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name in markers_of(item):
            item.add_marker(name)


def pytest_runtest_setup(item: pytest.Item) -> None:
    postgres_databases.permit(item.get_closest_marker("postgres") is not None)


def pytest_sessionfinish(session: pytest.Session) -> None:
    postgres_databases.close_databases()
