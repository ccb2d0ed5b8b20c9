"""Which dead letters a filter matches, and what they are called."""

from typing import Any

import pytest

from skep.model.address import message_id
from skep.model.dead_letter import DeadLetter, DeadLetterFilter


def dead_letter(chosen_id: str | None = None) -> DeadLetter:
    return DeadLetter(
        number=1,
        queue=1,
        partition=2,
        offset=3,
        group="billing",
        error="broken",
        attempts=1,
        failed_at=100,
        payload=b"",
        chosen_id=chosen_id,
        trace=None,
        producer=None,
        created_at=50,
        encrypted=False,
    )


@pytest.mark.parametrize(
    ("restriction", "matches"),
    [
        ({}, True),
        ({"group": "billing"}, True),
        ({"group": "stock"}, False),
        ({"partition": 2}, True),
        ({"partition": 3}, False),
        ({"from_at": 100}, True),
        ({"from_at": 101}, False),
        ({"to_at": 101}, True),
        ({"to_at": 100}, False),
    ],
)
def test_every_field_of_a_filter_restricts(restriction: dict[str, Any], matches: bool) -> None:
    assert DeadLetterFilter(queue=1, **restriction).matches(dead_letter()) is matches


def test_a_dead_letter_keeps_the_ids_of_its_message() -> None:
    assert dead_letter().message_id == message_id(2, 3)
    assert dead_letter().transaction_id == str(message_id(2, 3))
    assert dead_letter("o-1").transaction_id == "o-1"
