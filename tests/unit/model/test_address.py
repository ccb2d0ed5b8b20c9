"""A message id is an address, there and back."""

from uuid import RFC_4122, UUID

import pytest
from hypothesis import given, strategies as st

from skep.errors import Invalid
from skep.model.address import (
    MAX_OFFSET,
    MAX_PARTITION,
    address_of,
    message_id,
    message_text,
    message_texts,
    partition_id,
    partition_of,
    partition_text,
    queue_id,
)

partitions = st.integers(min_value=0, max_value=MAX_PARTITION)
offsets = st.integers(min_value=0, max_value=MAX_OFFSET)

VERSION_AND_VARIANT = 0xF << 76 | 0b11 << 62
IS_MESSAGE_ID = 0x8 << 76 | 0b10 << 62


@given(partitions, offsets)
def test_an_address_comes_back_from_its_id(partition: int, offset: int) -> None:
    assert address_of(message_id(partition, offset)) == (partition, offset)


@given(st.integers(min_value=0, max_value=(1 << 128) - 1))
def test_an_id_comes_back_from_its_address(bits: int) -> None:
    wanted = UUID(int=bits & ~VERSION_AND_VARIANT | IS_MESSAGE_ID)

    assert message_id(*address_of(wanted)) == wanted


@given(partitions, offsets)
def test_an_id_is_a_uuid_of_version_8(partition: int, offset: int) -> None:
    made = message_id(partition, offset)

    assert made.variant == RFC_4122
    assert str(made)[14] == "8"
    assert str(made)[19] in "89ab"


@pytest.mark.parametrize(
    ("partition", "offset", "text"),
    [
        (0, 0, "00000000-0000-8000-8000-000000000000"),
        (0, 1, "00000000-0000-8000-8000-000000000001"),
        (1, 0, "00000000-0000-8004-8000-000000000000"),
        (MAX_PARTITION, MAX_OFFSET, "ffffffff-ffff-8fff-bfff-ffffffffffff"),
    ],
)
def test_ids_that_are_out_in_the_world_stay_what_they_are(
    partition: int, offset: int, text: str
) -> None:
    assert str(message_id(partition, offset)) == text


@given(partitions, offsets, partitions, offsets)
def test_ids_sort_as_their_addresses_do(p: int, a: int, q: int, b: int) -> None:
    assert (message_id(p, a) < message_id(q, b)) == ((p, a) < (q, b))


@given(
    st.integers(min_value=0, max_value=(1 << 128) - 1).filter(
        lambda bits: bits & VERSION_AND_VARIANT != IS_MESSAGE_ID
    )
)
def test_another_uuid_is_not_a_message_id(bits: int) -> None:
    with pytest.raises(Invalid) as refused:
        address_of(UUID(int=bits))

    assert refused.value.field == "message_id"


@pytest.mark.parametrize(
    "other",
    [
        UUID(int=0),
        UUID("6f1c2b1e-9a64-4d0f-8a34-0c9d5e7f1a2b"),
        UUID("01980000-0000-7000-8000-000000000001"),
        UUID("00000000-0000-8000-0000-000000000000"),
    ],
    ids=["nil", "version 4", "version 7", "another variant"],
)
def test_a_uuid_of_somebody_else_is_refused_by_name(other: UUID) -> None:
    with pytest.raises(Invalid, match=f"{other} is not a message id"):
        address_of(other)


@given(partitions, st.lists(offsets))
def test_an_id_as_text_is_the_text_of_the_id(partition: int, several: list[int]) -> None:
    texts = [str(message_id(partition, offset)) for offset in several]

    assert message_texts(partition, several) == texts
    assert [message_text(partition, offset) for offset in several] == texts


@pytest.mark.parametrize("offset", [0, (1 << 48) - 1, 1 << 48, MAX_OFFSET - 2])
def test_an_offset_of_any_size_has_an_id_as_text(offset: int) -> None:
    assert message_text(7, offset) == str(message_id(7, offset))
    assert message_texts(7, [0, offset]) == [message_text(7, 0), message_text(7, offset)]


@given(partitions)
def test_a_partition_comes_back_from_its_id(number: int) -> None:
    assert partition_of(partition_id(number)) == number
    assert partition_text(number) == str(partition_id(number))


@pytest.mark.parametrize("other", [message_id(7, 0), queue_id(7)])
def test_another_id_is_not_that_of_a_partition(other: UUID) -> None:
    with pytest.raises(Invalid, match="is not the id of a partition"):
        partition_of(other)
