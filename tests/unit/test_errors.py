"""The tree of errors, as it is drawn and as it is."""

import inspect
from typing import Any

import pytest

from skep import errors
from skep.errors import Invalid, QueueFull, SkepError, TooLarge

STEP = 4
"""Characters that a level of the drawing takes."""


def drawn() -> dict[str, str]:
    """The parent of each error in the drawing at the top of the file."""
    lines = (errors.__doc__ or "").splitlines()
    lines = lines[lines.index("SkepError") :]
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in lines[: lines.index("")]:
        level = len(line) - len(line.lstrip("│├└─ "))
        path[level // STEP :] = [line[level:].split()[0]]
        if len(path) > 1:
            parents[path[-1]] = path[-2]
    return parents


def defined() -> dict[str, str]:
    """The parent of each error that the file defines."""
    return {
        name: found.__bases__[0].__name__
        for name, found in inspect.getmembers(errors, inspect.isclass)
        if found is not SkepError
    }


def test_the_tree_is_drawn_as_it_is() -> None:
    assert drawn() == defined()


def test_every_error_has_one_parent_and_descends_from_the_root() -> None:
    found = [error for _, error in inspect.getmembers(errors, inspect.isclass)]

    assert [error.__name__ for error in found if not issubclass(error, SkepError)] == []
    assert [error.__name__ for error in found if len(error.__bases__) != 1] == []


def test_every_error_of_the_tree_is_there_to_be_caught() -> None:
    assert [name for name in drawn() if not hasattr(errors, name)] == []


def test_invalid_says_where_and_why() -> None:
    error = Invalid("limit", "must be at least 1")

    assert (error.field, error.reason) == ("limit", "must be at least 1")
    assert str(error) == "limit: must be at least 1"


@pytest.mark.parametrize(("depth", "remaining"), [(0, 10), (7, 3), (10, 0), (12, 0)])
def test_a_full_queue_says_how_much_room_is_left(depth: int, remaining: int) -> None:
    error = QueueFull("orders", depth=depth, capacity=10)

    assert error.remaining == remaining
    assert error.code == "QUEUE_FULL"
    assert f"{depth} of 10" in str(error)


@pytest.mark.parametrize(
    ("error", "fields", "part"),
    [
        (errors.QueueNotFound, ("orders",), "queue 'orders'"),
        (errors.PartitionNotFound, ("orders", "alice"), "partition 'alice'"),
        (errors.GroupNotFound, ("orders", "billing"), "group 'billing'"),
        (errors.MessageNotFound, ("m-1",), "message m-1"),
        (errors.DeadLetterNotFound, (7,), "dead letter 7"),
        (errors.PositionMismatch, ("the queue was deleted",), "the queue was deleted: "),
        (errors.LeaseLost, ("l-1",), "lease l-1"),
        (errors.KeyReused, ("k-1",), "key 'k-1'"),
        (errors.QueryChanged, ("totals",), "query 'totals'"),
        (errors.EncryptionUnavailable, ("no key",), "encryption: no key"),
        (errors.QuotaExceeded, ("staged_bytes", 10), "at most 10 staged bytes"),
        (errors.Overloaded, (0.5,), "retry in 0.5 s"),
        (errors.RateLimited, (100, 0.5), "at most 100 requests per second"),
        (errors.InMaintenance, (), "maintenance"),
        (errors.Closed, (), "closed"),
        (errors.StoreLocked, ("/data", "process 7"), "/data is in use by process 7"),
        (errors.StoreFull, (), "disk is full"),
        (errors.StoreStalled, (), "stopped writes"),
        (errors.StoreFailed, ("EIO",), "(EIO)"),
        (errors.DecryptionFailed, ("wrong key",), "wrong key"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_an_error_says_and_keeps_what_it_is_about(
    error: type[SkepError], fields: tuple[Any, ...], part: str
) -> None:
    raised = error(*fields)

    assert part in str(raised)
    assert set(fields) <= set(vars(raised).values())


def test_invalid_of_a_part_names_the_whole() -> None:
    error = TooLarge("payload", "is too large").within("items[2]")

    assert (type(error), error.field) == (TooLarge, "items[2].payload")


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ("queue", ("queue",)),
        ("drafts[0].payload", ("drafts", 0, "payload")),
        ("operations[2].verdicts[10].offset", ("operations", 2, "verdicts", 10, "offset")),
    ],
)
def test_a_field_has_a_path_and_the_path_names_the_field(
    field: str, path: tuple[str | int, ...]
) -> None:
    error = TooLarge(field, "is too large")

    assert error.path == path
    moved = TooLarge("elsewhere", "is too large").at(path)
    assert (type(moved), moved.field, moved.reason) == (TooLarge, field, "is too large")
