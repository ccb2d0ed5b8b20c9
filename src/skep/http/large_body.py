"""Decodes large bodies element by element, so that other requests run in between.

Decoding blocks the event loop for as long as it takes. So the lists of a large body are first kept
as JSON, and their elements are decoded one by one, up to the maximum length of the list.
"""

import re
from collections.abc import Iterator
from functools import cache, reduce
from operator import or_
from typing import Any, NamedTuple, get_args, get_origin

import msgspec
from msgspec.inspect import ListType, StructType, UnionType, VarTupleType, type_info
from msgspec.structs import fields

from skep.core.aio import yielding
from skep.errors import FieldPath, Invalid
from skep.http.codec import check_utf8, decode_json

LARGE_BYTES = 256 << 10
FEW_COMMAS = 100_000
"""With fewer commas than this, a body can be decoded at once."""
_skip = msgspec.json.Decoder(msgspec.Raw).decode
_END = re.compile(r"trailing characters \(byte (\d+)\)")


class _List(NamedTuple):
    """A list in a body: its field, the type of its elements, and its maximum length."""

    name: str
    key: str
    element: Any
    max_length: int
    whole: Any
    make: type[list[Any]] | type[tuple[Any, ...]]


class _Outline(NamedTuple):
    """A struct whose lists are kept as JSON, and the struct that it stands for."""

    outline: type[msgspec.Struct]
    struct: type[msgspec.Struct]
    lists: tuple[_List, ...]


def is_large(body: bytes) -> bool:
    """Whether decoding it at once would block the event loop for long."""
    return len(body) > LARGE_BYTES and body.count(b",") > FEW_COMMAS


async def decode_large(kind: Any, body: bytes) -> Any:
    """A large body as the route's type."""
    check_utf8(body)
    return await _decode(kind, body, ())


async def _decode(kind: Any, text: bytes | memoryview, where: FieldPath) -> Any:
    outlines = _outlines(kind) if len(text) > LARGE_BYTES else ()
    wanted = reduce(or_, (each.outline for each in outlines)) if outlines else kind
    decoded = _decode_here(wanted, text, where)
    for outline, struct, lists in outlines:
        if type(decoded) is outline:
            values = {name: getattr(decoded, name) for name in outline.__struct_fields__}
            for each in lists:
                values[each.name] = await _decode_list(each, values[each.name], where)
            return struct(**values)
    return decoded


async def _decode_list(kind: _List, json: Any, parents: FieldPath) -> Any:
    where = (*parents, kind.key)
    if not isinstance(json, msgspec.Raw):
        return json  # absent: it has its default
    text = memoryview(json)
    if text[0] != ord("["):
        return _decode_here(kind.whole, text, where)
    decoded: list[Any] = []
    async for element in yielding(_elements(text)):
        if len(decoded) == kind.max_length:
            raise Invalid("", f"expected `array` of length <= {kind.max_length}").at(where)
        decoded.append(await _decode(kind.element, element, (*where, len(decoded))))
    return kind.make(decoded)


def _elements(array: memoryview) -> Iterator[memoryview]:
    """The JSON of each element of a valid array.

    A decoder that is given the rest of the array reports where the first element ends, as trailing
    characters.
    """
    start = 1
    while True:
        try:
            _skip(array[start:])
        except msgspec.DecodeError as error:
            first_end = _END.search(str(error))
        if first_end is None:
            return  # only the closing bracket is left
        end = start + int(first_end[1]) - 1
        yield array[start:end]
        if array[end] == ord("]"):
            return
        start = end + 1


def _decode_here(kind: Any, text: bytes | memoryview, where: FieldPath) -> Any:
    try:
        return decode_json(kind, text)
    except Invalid as error:
        if not where:
            raise
        is_whole = error.field == "body"
        raise (error.at(where) if is_whole else error.within(*where)) from None


@cache
def _outlines(kind: Any) -> tuple[_Outline, ...]:
    """The outlines of a struct, or of each alternative; empty if none has a list."""
    info = type_info(kind)
    kinds = info.types if isinstance(info, UnionType) else (info,)
    outlines = [_outline(each) for each in kinds if isinstance(each, StructType)]
    return tuple(outlines) if any(each.lists for each in outlines) else ()


def _outline(kind: StructType) -> _Outline:
    lists = tuple(_lists(kind))
    names = {each.name for each in lists}
    raw = [
        (each.name, msgspec.Raw) if each.required else (each.name, msgspec.Raw, each.default)
        for each in kind.fields
        if each.name in names
    ]
    outline = msgspec.defstruct(
        kind.cls.__name__, raw, bases=(kind.cls,), frozen=True, kw_only=True
    )
    return _Outline(outline, kind.cls, lists)


def _lists(kind: StructType) -> Iterator[_List]:
    for field, whole in zip(kind.fields, fields(kind.cls), strict=True):
        types = field.type.types if isinstance(field.type, UnionType) else (field.type,)
        for each in types:
            if isinstance(each, ListType | VarTupleType) and each.max_length is not None:
                element = _element(whole.type)
                make = list if isinstance(each, ListType) else tuple
                names = field.name, field.encode_name
                yield _List(*names, element, each.max_length, whole.type, make)


def _element(annotation: Any) -> Any:
    """The element type of the list in an annotation; None if it has no list."""
    parts = get_args(annotation)
    if get_origin(annotation) in (list, tuple):
        return parts[0]
    return next(filter(None, map(_element, parts)), None)
