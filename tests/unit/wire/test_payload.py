"""Payloads on the wire come out as they went in, byte for byte."""

import msgspec
import pytest
from hypothesis import given, strategies as st

from skep.wire.body import encode
from skep.wire.payload import MAX_DEPTH, MAX_PARENTS, Encoding, depth_of, to_payload, to_wire

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


class Item(msgspec.Struct):
    """A body with a payload in it."""

    payload: msgspec.Raw
    encoding: Encoding


def sent_and_received(payload: bytes) -> bytes:
    data, encoding = to_wire(payload)
    item = msgspec.json.decode(encode(Item(data, encoding)), type=Item)
    return to_payload(item.payload, item.encoding)


@given(st.binary() | st.binary().map(lambda data: b'"' + data + b'"'))
def test_any_bytes_arrive_as_they_are(payload: bytes) -> None:
    assert sent_and_received(payload) == payload


@given(JSON, st.sampled_from([b"", b" ", b"\n"]), st.sampled_from([b"", b" ", b"\n"]))
def test_any_json_arrives_as_it_is(value: object, before: bytes, behind: bytes) -> None:
    payload = before + msgspec.json.encode(value) + behind

    assert sent_and_received(payload) == payload


@pytest.mark.parametrize("payload", [b"{}", b"null", b"12", b'"text"', b'{"a": [1, 2]}'])
def test_json_goes_as_json(payload: bytes) -> None:
    data, encoding = to_wire(payload)

    assert (bytes(data), encoding) == (payload, "json")


@pytest.mark.parametrize(
    "payload",
    [b"", b"text", b" 1", b"1\n", b'"\xff"', b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1)],
)
def test_what_a_parser_would_change_or_refuse_goes_in_base64(payload: bytes) -> None:
    assert to_wire(payload)[1] == "base64"
    assert sent_and_received(payload) == payload


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


TEXT = st.text(st.sampled_from('[]{}"\\a\n'))


@given(
    st.recursive(TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)),
)
def test_brackets_in_texts_do_not_count_as_depth(value: object) -> None:
    assert depth_of(msgspec.json.encode(value)) == depth(value)


@pytest.mark.parametrize(
    ("parents", "is_too_much"), [(MAX_PARENTS, False), (MAX_PARENTS + 1, True)]
)
def test_json_with_too_many_nested_arrays_goes_in_base64(parents: int, is_too_much: bool) -> None:
    payload = b"[" + b",".join([b"[[]]"] * (parents - 1)) + b"]"

    assert to_wire(payload)[1] == ("base64" if is_too_much else "json")
