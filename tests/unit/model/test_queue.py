"""Options and labels of a queue."""

from typing import Any

import pytest

from skep.errors import Invalid
from skep.model.queue import QueueOptions, labels_of, options_from


def test_options_that_are_not_given_have_their_defaults() -> None:
    assert options_from({"retry_limit": 5}) == QueueOptions(retry_limit=5)


@pytest.mark.parametrize(
    ("name", "value"), [("retries", 1), ("lease_time", 0), ("lease_time", "1"), ("max_size", -1)]
)
def test_an_option_that_is_wrong_is_named(name: str, value: Any) -> None:
    with pytest.raises(Invalid) as caught:
        options_from({"priority": 1, name: value})

    assert caught.value.field == name


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("orders", (None, None)),
        ("shop.orders", ("shop", "orders")),
        ("shop.orders.eu", ("shop", "orders")),
        (".orders", (None, "orders")),
        ("shop.", (None, None)),
    ],
)
def test_a_name_has_a_namespace_and_a_task_before_and_behind_its_first_dot(
    name: str, labels: tuple[str | None, str | None]
) -> None:
    assert labels_of(name) == labels
