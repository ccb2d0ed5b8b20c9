"""Names of fields in errors, mapped once in each direction.

What the core calls ``drafts[0].transaction_id`` was sent as ``items[0].transactionId``: the server
names it as it was sent, and the client maps that name to its own argument.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from msgspec.inspect import StructType, Type, UnionType, type_info

from skep.errors import FieldPath, Invalid

Origins: TypeAlias = Mapping[FieldPath, FieldPath]
"""Paths of the core's arguments, and the paths in the request that they were made from."""

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
"""Arguments of the client whose name is not the name on the wire in snake case."""


def to_request(error: Invalid, words: Mapping[str, str], origins: Origins) -> Invalid:
    """An error of the core with the field named as in the request.

    The longest prefix of its path in ``origins`` is replaced, then each name by its name on the
    wire.
    """
    field = _NAME.sub(lambda name: words.get(name[0], name[0]), _to_origin(error, origins).field)
    return type(error)(field, error.reason)


def _to_origin(error: Invalid, origins: Origins) -> Invalid:
    path = error.path if origins else ()
    for length in range(len(path), 0, -1):
        if (origin := origins.get(path[:length])) is not None:
            return error.at((*origin, *path[length:]))
    return error


def to_argument(field: str) -> str:
    """A field of a request as an argument of a client's method."""
    field = _QUEUE_OF_ITEM.sub("queue", field)
    return _NAME.sub(lambda name: _ARGUMENTS.get(name[0]) or to_snake(name[0]), field)


@lru_cache(maxsize=256)
def words_of(kind: Any) -> Mapping[str, str]:
    """The names of all fields in a body or a query: in Python, and on the wire."""
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
