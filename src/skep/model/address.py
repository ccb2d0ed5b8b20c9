"""The message id *is* the address: partition number and offset in one UUID of version 8.

    48 bits        4     12 bits        2    62 bits
    address >> 74  1000  address >> 62  10   address

where the address is 58 bits of partition number, then 64 bits of offset. Nothing is
stored for it and nothing indexed: a look-up by id is a look-up by key.
"""

from collections.abc import Sequence
from functools import lru_cache
from uuid import UUID

from skep.errors import Invalid
from skep.model.name import Offset

MAX_PARTITION = (1 << 58) - 1
MAX_OFFSET = (1 << 64) - 1

_VERSION = 0x8 << 76
_VARIANT = 0b10 << 62


def message_id(partition: int, offset: Offset) -> UUID:
    """The id of the message at ``offset`` of the partition with this number."""
    address = partition << 64 | offset
    return UUID(
        int=address >> 74 << 80
        | _VERSION
        | (address >> 62 & 0xFFF) << 64
        | _VARIANT
        | address & (1 << 62) - 1
    )


def message_text(partition: int, offset: Offset) -> str:
    """The id of a message as text: many are written, and few are ever looked at as a UUID."""
    if offset >> 48:
        return str(message_id(partition, offset))
    return f"{_head(partition)}{offset:012x}"


def message_texts(partition: int, offsets: Sequence[Offset]) -> list[str]:
    """The ids of several messages of a partition as text."""
    if offsets and max(offsets) >> 48:
        return [message_text(partition, offset) for offset in offsets]
    head = _head(partition)
    return [f"{head}{offset:012x}" for offset in offsets]


@lru_cache(maxsize=10_000)
def _head(partition: int) -> str:
    """What the ids of a partition's first 2^48 messages begin with."""
    return str(message_id(partition, 0))[:24]


def partition_id(number: int) -> UUID:
    """A partition as a UUID: the address of the one offset that no message ever has."""
    return message_id(number, MAX_OFFSET)


@lru_cache(maxsize=10_000)
def partition_text(number: int) -> str:
    """The id of a partition as text."""
    return str(partition_id(number))


def queue_id(number: int) -> UUID:
    """A queue as a UUID, in the same way."""
    return message_id(number, MAX_OFFSET - 1)


def partition_of(identifier: UUID) -> int:
    """The number in a partition's id."""
    number, offset = address_of(identifier)
    if offset != MAX_OFFSET:
        raise Invalid("partition_id", f"{identifier} is not the id of a partition")
    return number


def address_of(message: UUID) -> tuple[int, Offset]:
    """The partition number and offset in a message id."""
    bits = message.int
    if bits >> 76 & 0xF != 0x8 or bits >> 62 & 0b11 != 0b10:
        raise Invalid("message_id", f"{message} is not a message id")
    address = bits >> 80 << 74 | (bits >> 64 & 0xFFF) << 62 | bits & (1 << 62) - 1
    return address >> 64, address & MAX_OFFSET
