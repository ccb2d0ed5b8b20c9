"""What a pop may ask for, on any server."""

from datetime import UTC, datetime
from typing import Any

import pytest

from skep.errors import Invalid
from skep.model.pop_request import PopRequest

AWARE = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "fields",
    [
        {"queue": "orders"},
        {"queue": "orders", "partition": "alice"},
        {"namespace": "shop"},
        {"task": "mail", "subscription_mode": "new", "subscription_from": AWARE},
    ],
)
def test_a_pop_is_from_a_queue_or_from_the_queues_of_a_label(fields: dict[str, Any]) -> None:
    assert PopRequest(**fields).checked() == PopRequest(**fields)


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("queue", {}),
        ("queue", {"queue": "orders", "task": "mail"}),
        ("queue", {"queue": ""}),
        ("partition", {"namespace": "shop", "partition": "alice"}),
        ("group", {"queue": "orders", "group": ""}),
        ("auto_ack", {"queue": "orders", "auto_ack": 1}),
        ("subscription_mode", {"queue": "orders", "subscription_mode": "old"}),
        ("subscription_from", {"queue": "orders", "subscription_from": "yesterday"}),
    ],
)
def test_a_pop_that_no_server_accepts_names_the_field(field: str, fields: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as caught:
        PopRequest(**fields).checked()

    assert caught.value.field == field


@pytest.mark.parametrize("wait", [0, 0.5, 30])
def test_a_pop_waits_up_to_a_limit(wait: float) -> None:
    PopRequest(queue="orders", wait=wait).check_wait(30)


@pytest.mark.parametrize("wait", [-1, 30.1, float("nan"), True, "1"])
def test_a_pop_does_not_wait_longer(wait: Any) -> None:
    with pytest.raises(Invalid, match="wait: must be 0 to 30 seconds"):
        PopRequest(queue="orders", wait=wait).check_wait(30)
