"""The key layout in RocksDB.

    key                                        value
    m <what>                                   about the store: format, id, last number
    q <queue>                                  queue
    x <queue>                                  (a deleted queue with rows to purge)
    y <queue> <group>                          (a group whose states are being purged or created)
    n <queue> <name>                           number of the partition
    p <queue> <partition>                      partition
    g <queue> <group>                          subscription
    c <queue> <partition> <group>              consumer
    h <queue> <lane>                           head of the journal
    j <queue> <lane> <position>                partition and offset of a segment
    t <partition> <transaction id>             offset
    i <trace id> <partition> <offset>          (a message with this trace id)
    d <queue> <number>                         dead letter
    u <partition> <offset> <group>             number of the dead letter
    e <partition> <offset> <number>            trace event
    a <name> 0 <number>                        partition and offset of a trace event
    k <idempotency key>                        outcome
    o <instant> <idempotency key>              (its age)
    r <queue> <number>                         removal
    s <space> 0 <key>                          entry

and in a column family of their own, ``segments``:

    <partition> <offset>                       segment

Numbers, offsets and instants are eight bytes, big-endian; a text stands last, or is ended by a
zero byte that it may not contain. So the order of the bytes is the order of the tuples, and what
belongs together is one contiguous range.

The states of a deleted group are purged later. A new group of the same name that is created
before that is stored as ``<group> 0 <generation>``, a number in decimal.
"""

import struct
from collections.abc import Iterable

_ONE = struct.Struct(">Q")
_TWO = struct.Struct(">QQ")
_THREE = struct.Struct(">QQQ")

pack = _ONE.pack
pack_pair = _TWO.pack


def unpack(value: bytes) -> int:
    number: int = _ONE.unpack(value)[0]
    return number


def unpack_pair(value: bytes) -> tuple[int, int]:
    first, second = _TWO.unpack(value)
    return first, second


def last_number(key: bytes) -> int:
    """The number at the end of a key."""
    return unpack(key[-8:])


def after(prefix: bytes) -> bytes:
    """The first key after all that begin with ``prefix``."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1])


def about(what: str) -> bytes:
    return b"m" + what.encode()


def queue_key(queue: int) -> bytes:
    return b"q" + pack(queue)


def removed_queue_key(queue: int) -> bytes:
    return b"x" + pack(queue)


def listed_group_key(queue: int, group: str) -> bytes:
    return b"y" + pack(queue) + group.encode()


def listed_group(key: bytes) -> tuple[int, str]:
    """The queue and the group in the key of a listed group."""
    return unpack(key[1:9]), key[9:].decode()


def group_of(stored: str) -> str:
    """The name of a group that is stored under a name."""
    return stored.partition("\x00")[0]


def name_key(queue: int, name: str) -> bytes:
    return b"n" + pack(queue) + name.encode()


def partition_key(queue: int, partition: int) -> bytes:
    return b"p" + pack_pair(queue, partition)


def subscription_key(queue: int, group: str) -> bytes:
    return b"g" + pack(queue) + group.encode()


def consumer_key(queue: int, partition: int, group: str) -> bytes:
    return b"c" + pack_pair(queue, partition) + group.encode()


def consumer_place(key: bytes) -> tuple[int, str]:
    """The partition and the group in a consumer's key."""
    return unpack(key[9:17]), key[17:].decode()


def head_key(queue: int, lane: int) -> bytes:
    return b"h" + pack_pair(queue, lane)


def journal_key(queue: int, lane: int, position: int) -> bytes:
    return b"j" + _THREE.pack(queue, lane, position)


def transaction_key(partition: int, transaction_id: str) -> bytes:
    return b"t" + pack(partition) + transaction_id.encode()


def transaction_keys(partition: int, transaction_ids: Iterable[str]) -> list[bytes]:
    prefix = b"t" + pack(partition)
    return [prefix + chosen.encode() for chosen in transaction_ids]


def trace_id_key(trace_id: bytes, partition: int, offset: int) -> bytes:
    return b"i" + trace_id + pack_pair(partition, offset)


def dead_letter_key(queue: int, number: int) -> bytes:
    return b"d" + pack_pair(queue, number)


def dead_message_key(partition: int, offset: int, group: str) -> bytes:
    return b"u" + pack_pair(partition, offset) + group.encode()


def dead_message(key: bytes) -> tuple[int, str]:
    """The offset and the group in the key of a dead message."""
    return unpack(key[9:17]), key[17:].decode()


def event_key(partition: int, offset: int, number: int) -> bytes:
    return b"e" + _THREE.pack(partition, offset, number)


def event_name_key(name: str, number: int) -> bytes:
    return b"a" + name.encode() + b"\x00" + pack(number)


def outcome_key(key: str) -> bytes:
    return b"k" + key.encode()


def outcome_age_key(instant: int, key: str) -> bytes:
    return b"o" + pack(instant) + key.encode()


def removal_key(queue: int, number: int) -> bytes:
    return b"r" + pack_pair(queue, number)


def entry_key(space: str, key: str) -> bytes:
    return b"s" + space.encode() + b"\x00" + key.encode()


def segment_key(partition: int, offset: int) -> bytes:
    return pack_pair(partition, offset)
