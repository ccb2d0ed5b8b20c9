"""Where a request is wrong, in the words of who wrote it.

What the core calls ``drafts[0].transaction_id`` was sent as ``items[0].transactionId``, and whoever
sent it through our client called it as the core does.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from msgspec.inspect import StructType, Type, UnionType, type_info

_NAME = re.compile(r"[A-Za-z_]+")
_QUEUE_OF_ITEM = re.compile(r"items\[\d+\]\.queue$")
_ARGUMENTS = {
    "items": "drafts",
    "consumerGroup": "group",
    "partitionId": "partition",
    "timeout": "wait",
    "eventType": "kind",
    "traceNames": "names",
    "workerId": "worker",
}
"""What a client's arguments are called where that is not the name on the wire in snake case."""


def to_field(argument: str, words: Mapping[str, str]) -> str:
    """A place in the core's arguments as a place in a request, part by part."""
    return _NAME.sub(lambda name: words.get(name[0], name[0]), argument)


def to_argument(field: str) -> str:
    """A place in a request as a place in the arguments of a client."""
    field = _QUEUE_OF_ITEM.sub("queue", field)
    return _NAME.sub(lambda name: _ARGUMENTS.get(name[0]) or to_snake(name[0]), field)


@lru_cache(maxsize=256)
def words_of(kind: Any) -> Mapping[str, str]:
    """The names of all fields in a body or a query: ours, and what each is on the wire."""
    structs = _structs(type_info(kind))
    words = {each.name: each.encode_name for struct in structs for each in struct.fields}
    return {"group": words["consumer_group"], **words} if "consumer_group" in words else words


def _structs(kind: Type) -> Iterator[StructType]:
    if isinstance(kind, StructType):
        yield kind
        for each in kind.fields:
            yield from _structs(each.type)
    elif isinstance(kind, UnionType):
        for one in kind.types:
            yield from _structs(one)
    elif isinstance(inner := getattr(kind, "item_type", None), Type):
        yield from _structs(inner)


def to_camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def to_snake(name: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
