"""Large bodies: decoded in slices, with limits on their lists, and otherwise like small ones."""

import asyncio
from typing import Any

import msgspec
import pytest

from skep.core import aio as fairness
from skep.errors import Invalid
from skep.http import large_body
from skep.http.codec import decode_body
from skep.http.large_body import decode_large
from skep.http.limits import MB
from skep.http.routes import all_routes
from skep.http.routing import Route
from skep.wire.body import MAX_ELEMENTS
from skep.wire.message.dead_letter import MAX_NUMBERS, DeadLetterSelection
from skep.wire.message.push import PushBody
from skep.wire.message.stream_query import CycleBody
from skep.wire.message.transaction import TransactionBody
from tests.support.http.json_client import Client

ID = "00000000-0000-8000-8000-000000000001"
ITEM = '{"queue": "q", "payload": [1, "],"], "transactionId": "x"}'
VERDICT = f'{{"partitionId": "{ID}", "offset": 1, "status": "retry"}}'


def outcome(decode: Any) -> object:
    try:
        return msgspec.json.encode(decode())
    except Invalid as error:
        return str(error)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        *(
            (PushBody, body)
            for body in (
                "{}",
                "[]",
                "null",
                '{"items": []}',
                '{"items": [ ] }',
                f'{{"items": [{ITEM}, {ITEM}], "unknown": [1]}}',
                f'{{ "items" : [ {ITEM}\n,\t{ITEM} ] }}',
                f'{{"items": {ITEM}}}',
                '{"items": null}',
                '{"items": 5}',
                '{"items": [5]}',
                '{"items": ["]"]}',
                f'{{"items": [{ITEM}, {{}}]}}',
                f'{{"items": [{ITEM}, {{"queue": 1}}]}}',
                f'{{"items": [{ITEM}, null]}}',
                f'{{"items": [{ITEM},]}}',
                '{"items": [,]}',
                f'{{"items": [{ITEM}',
                f'{{"items": [{ITEM}]}}x',
            )
        ),
        *(
            (TransactionBody, body)
            for body in (
                f'{{"operations": [{{"type": "push", "items": [{ITEM}]}}, {{"type": "settle", '
                f'"leaseId": "a", "verdicts": [{VERDICT}]}}], "requiredLeases": ["a", "b"]}}',
                '{"operations": [{"type": "settle", "leaseId": "a", "verdicts": null}]}',
                '{"operations": [{"type": "other"}]}',
                '{"operations": [{"items": []}]}',
                '{"operations": [{"type": "push", "items": [{"queue": 5}]}]}',
                '{"operations": [], "requiredLeases": [5]}',
            )
        ),
        *(
            (DeadLetterSelection, f'{{"numbers": [{number}, 2]}}')
            for number in ("1", "-1", '"1"', "null")
        ),
        (CycleBody, f'{{"query_id": "{ID}", "partition_id": "{ID}", "push_items": [{ITEM}]}}'),
    ],
)
async def test_a_large_body_is_decoded_like_a_small_one(
    monkeypatch: pytest.MonkeyPatch, kind: Any, body: str
) -> None:
    monkeypatch.setattr(large_body, "LARGE_BYTES", 0)
    try:
        decoded = await decode_large(kind, body.encode())
    except Invalid as error:
        large: object = str(error)
    else:
        large = msgspec.json.encode(decoded)

    assert large == outcome(lambda: decode_body(kind, body.encode()))


async def test_other_requests_run_while_a_large_body_is_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fairness, "_FREE_SECONDS", 0)
    monkeypatch.setattr(fairness, "SLICE_SECONDS", 0)
    body = f'{{"items": [{",".join([ITEM] * 5000)}]}}'
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await decode_large(PushBody, body.encode())
    counting.cancel()

    assert turns >= 5000


async def test_no_more_elements_are_decoded_than_a_list_may_have(client: Client) -> None:
    many = b",".join([b'{"queue":"q"}'] * 300_000)

    problem = await client.ask("POST", "/api/v1/push", 400, content=b'{"items":[%b]}' % many)

    assert problem["error"] == f"items: expected `array` of length <= {MAX_ELEMENTS}"


async def test_no_more_numbers_are_decoded_than_a_choice_may_have(client: Client) -> None:
    many = b",".join(b"%d" % number for number in range(130_000))

    problem = await client.ask(
        "POST", "/api/v1/dlq/orders/replay", 400, content=b'{"numbers":[%b]}' % many
    )

    assert problem["error"] == f"numbers: expected `array` of length <= {MAX_NUMBERS}"


@pytest.mark.parametrize("route", [route for route in all_routes() if route.body is not None])
async def test_a_large_body_of_any_route_is_decoded(
    monkeypatch: pytest.MonkeyPatch, route: Route
) -> None:
    monkeypatch.setattr(large_body, "LARGE_BYTES", 0)

    with pytest.raises(Invalid, match="expected `object`"):
        await decode_large(route.body, b"5")


@pytest.mark.parametrize("route", [route for route in all_routes() if route.body is not None])
def test_every_list_in_a_large_body_has_a_limit(route: Route) -> None:
    if route.body_bytes > 2 * MB:
        schema = msgspec.json.schema(route.body)
        assert [place for place in unlimited(schema, "$")] == []


def unlimited(schema: Any, place: str) -> list[str]:
    found = []
    if isinstance(schema, dict):
        if schema.get("type") == "array" and "maxItems" not in schema:
            found.append(place)
        for key, value in schema.items():
            found += unlimited(value, f"{place}.{key}")
    elif isinstance(schema, list):
        for value in schema:
            found += unlimited(value, place)
    return found


async def test_a_body_without_long_lists_is_at_most_a_megabyte(client: Client) -> None:
    body = b'{"queue": "orders", "unknown": "%b"}' % (b"x" * MB)

    await client.ask("POST", "/api/v1/configure", 413, content=body)
