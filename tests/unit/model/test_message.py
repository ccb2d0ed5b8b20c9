"""Drafts and messages that speak JSON."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from skep import Draft, Message
from skep.errors import Invalid

TRACE = UUID("7c9e6679-7425-40de-944b-e07fc1f90ae7")


def message(payload: bytes) -> Message:
    return Message(
        queue="orders",
        partition="alice",
        partition_number=1,
        offset=0,
        payload=payload,
        chosen_id=None,
        trace=None,
        producer=None,
        created_at=datetime(2030, 1, 1, tzinfo=UTC),
    )


def test_a_draft_can_be_made_of_anything_that_json_can_say() -> None:
    draft = Draft.json({"total": 12}, "alice", "o-1", TRACE)

    assert draft == Draft(b'{"total":12}', "alice", "o-1", TRACE)


def test_a_draft_made_of_json_goes_to_the_default_partition_too() -> None:
    assert Draft.json([1]) == Draft(b"[1]")


@pytest.mark.parametrize("value", [None, True, 12, "text", [1, [2]], {"a": {"b": None}}])
def test_a_message_gives_back_the_value_of_its_draft(value: Any) -> None:
    assert message(Draft.json(value).payload).json() == value


@pytest.mark.parametrize("payload", [b"", b"text", b"\xff", b"{"])
def test_a_payload_that_is_not_json_says_so(payload: bytes) -> None:
    with pytest.raises(Invalid) as caught:
        message(payload).json()

    assert caught.value.field == "payload"
