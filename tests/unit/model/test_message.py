"""Drafts and messages that speak JSON."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from skep import Draft, Message
from skep.errors import Invalid
from skep.model.address import message_id
from skep.model.change import Appended
from skep.model.message import Receipt, Receipts

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


def test_a_message_without_an_id_of_its_producer_has_its_own_as_transaction_id() -> None:
    own, chosen = message(b""), replace(message(b""), chosen_id="o-1")

    assert own.id == message_id(1, 0)
    assert (own.transaction_id, chosen.transaction_id) == (str(own.id), "o-1")


def test_a_trace_id_is_a_uuid_or_none() -> None:
    assert message(b"").trace_id is None
    assert replace(message(b""), trace=TRACE.bytes).trace_id == TRACE


RECEIPTS = Receipts("alice", Appended(1, [4, 2, 5], frozenset({1})), [None, "o-1", None])


def test_receipts_are_a_sequence_of_receipts() -> None:
    first = Receipt("alice", 1, 4, False, None)
    second = Receipt("alice", 1, 2, True, "o-1")
    third = Receipt("alice", 1, 5, False, None)

    assert list(RECEIPTS) == [first, second, third]
    assert (RECEIPTS[0], RECEIPTS[-2], len(RECEIPTS)) == (first, second, 3)
    assert RECEIPTS[1:] == [second, third]
    assert repr(RECEIPTS) == repr([first, second, third])


def test_receipts_are_equal_to_what_has_the_same_receipts() -> None:
    assert list(RECEIPTS) == RECEIPTS
    assert RECEIPTS != []
    assert RECEIPTS != 7


def test_a_receipt_has_the_ids_of_its_message() -> None:
    assert RECEIPTS[0].id == message_id(1, 4)
    assert RECEIPTS[0].transaction_id == str(message_id(1, 4))
    assert RECEIPTS[1].transaction_id == "o-1"
