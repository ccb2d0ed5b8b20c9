"""Which lease and which messages a caller means."""

from datetime import UTC, datetime
from typing import Any

import pytest

from skep.errors import Invalid
from skep.model.message import Delivery, Message
from skep.model.name import LeaseId
from skep.model.operation import Settlement, Verdict, lease_id_of, messages_of, verdicts_on

LEASE_ID = LeaseId("6f1c2b1e-9a64-4d0f-8a34-0c9d5e7f1a2b")
MESSAGE = Message(
    queue="orders",
    partition="alice",
    partition_number=1,
    offset=2,
    payload=b"",
    chosen_id=None,
    trace=None,
    producer=None,
    created_at=datetime(2030, 1, 1, tzinfo=UTC),
)


def delivery(lease_id: LeaseId | None = LEASE_ID) -> Delivery:
    return Delivery(group="billing", lease_id=lease_id, expires_at=None, messages=[MESSAGE])


def test_a_lease_is_meant_by_its_id_or_by_its_delivery() -> None:
    assert lease_id_of(delivery()) == LEASE_ID
    assert lease_id_of(LEASE_ID) == LEASE_ID


def test_a_delivery_that_was_acknowledged_at_once_has_no_lease() -> None:
    with pytest.raises(Invalid, match="was acknowledged when it was popped"):
        lease_id_of(delivery(None))


def test_a_verdict_is_about_each_message() -> None:
    assert verdicts_on([MESSAGE], "failed", "no") == [Verdict(1, 2, "failed", "no")]


@pytest.mark.parametrize("messages", [7, [], [MESSAGE, "message"]])
def test_a_verdict_needs_messages(messages: Any) -> None:
    with pytest.raises(Invalid) as caught:
        verdicts_on(messages, "failed")

    assert caught.value.field == "messages"


def test_all_messages_of_a_delivery_are_meant_unless_some_are_named() -> None:
    assert messages_of(delivery(), None) == [MESSAGE]
    assert messages_of(delivery(), []) == []
    with pytest.raises(Invalid, match="must be given with a lease id"):
        messages_of(LEASE_ID, None)


def test_a_settlement_counts_its_dead_letters() -> None:
    assert Settlement(given_up=((1, 2), (1, 3))).dead_letters == 2
