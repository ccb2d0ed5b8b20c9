"""Which markers a test gets: from its directory, its parameters, and what it and its fixtures call.

``pytest -m "not slow and not postgres and not spark and not end_to_end"`` starts neither
PostgreSQL nor Java nor a server process.
"""

from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

TESTS = Path(__file__).parents[1]

BY_DIRECTORY = {
    "browser": ("end_to_end",),
    "cli": ("end_to_end",),
    "docs": ("end_to_end",),
    "faults": ("end_to_end", "postgres", "slow"),
    "fuzz": ("postgres", "slow"),
    "machine": ("slow",),
    "mutation": ("postgres", "slow"),
    "postgres": ("postgres",),
    "queen": ("end_to_end",),
    "spark": ("spark",),
}
BY_CALLED_NAME = {"ServerProcess": "end_to_end", "databases": "postgres"}
"""What a test or one of its fixtures calls, if no parameter decides whether it does."""
POSTGRES_PARAMETERS = frozenset(
    {"postgres", "servers", "two servers", "workers", "two workers on PostgreSQL"}
)
"""Parameters that name a store on PostgreSQL; ``rocksdb-postgres`` names two stores."""


def markers_of(item: pytest.Item) -> set[str]:
    """The names of the markers that a test gets besides those in its own file."""
    markers = {*BY_DIRECTORY.get(item.path.relative_to(TESTS).parts[0], ())}
    if isinstance(item, pytest.Function):
        markers |= {*_by_called_name(item), *_by_parameter(item)}
    return markers


def _by_called_name(item: pytest.Function) -> Iterator[str]:
    fixtures = item._fixtureinfo.name2fixturedefs
    functions = [fixtures[name][-1].func for name in item.fixturenames if name in fixtures]
    decided = {"databases"} if _store_parameters(item) else set()
    for function in (item.function, *functions):
        for name in _names_in(getattr(function, "__code__", None)) - decided:
            if name in BY_CALLED_NAME:
                yield BY_CALLED_NAME[name]


def _by_parameter(item: pytest.Function) -> Iterator[str]:
    for value in _store_parameters(item):
        if not POSTGRES_PARAMETERS.isdisjoint((value, *value.split("-"))):
            yield "postgres"


def _store_parameters(item: pytest.Function) -> list[str]:
    """The parameters that name the kind of a store."""
    callspec = getattr(item, "callspec", None)
    values = [] if callspec is None else callspec.params.values()
    kinds = POSTGRES_PARAMETERS | {"memory", "rocksdb", "embedded"}
    return [
        value
        for value in values
        if isinstance(value, str) and not kinds.isdisjoint((value, *value.split("-")))
    ]


def _names_in(code: CodeType | None) -> frozenset[str]:
    """The names that a function and the functions inside it use."""
    if code is None:
        return frozenset()
    inner = (_names_in(part) for part in code.co_consts if isinstance(part, CodeType))
    return frozenset(code.co_names).union(*inner)
