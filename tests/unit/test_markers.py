"""What the quick selection of tests does not start."""

import pytest

from tests.support.postgres_databases import Databases, databases


def start_postgres() -> Databases:
    return databases()


def test_a_test_without_the_marker_cannot_start_postgresql() -> None:
    with pytest.raises(AssertionError, match="needs the marker 'postgres'"):
        start_postgres()


@pytest.mark.parametrize("store", ["postgres", "rocksdb-postgres", "servers", "memory"])
def test_a_store_on_postgresql_gives_a_test_its_marker(
    store: str, request: pytest.FixtureRequest
) -> None:
    marked = request.node.get_closest_marker("postgres") is not None

    assert marked is (store != "memory")
