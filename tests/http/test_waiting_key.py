"""Long polls whose key or token ends while they wait."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from skep import Broker, Draft
from skep.http.auth.api_key import CHECK_SECONDS, NewKey, create_key
from skep.http.auth.api_key_file import add_key, revoke_key
from skep.testing.clock import ManualClock
from tests.support.broker_builders import turn
from tests.support.http.authenticated_app import knock, make_app
from tests.support.http.token_signing import seconds

POP = "/api/v1/pop/queue/orders"
QUERY = {"wait": "true", "timeout": "60000"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


async def waiting(
    broker: Broker, client: httpx.AsyncClient, number: int = 1, **query: str
) -> asyncio.Task[httpx.Response]:
    """A poll that has been parked, as so many now are."""
    poll = asyncio.create_task(client.get(POP, params=QUERY | query))
    while sum(broker.insight.queues.parked(lambda _: True).values()) < number:
        await turn()
        assert not poll.done(), poll.result().text
    return poll


def narrow(path: Path, key: NewKey) -> None:
    """Take the queue away from the key."""
    path.write_text(path.read_text().replace('"orders"', '"letters"'))


def revoke(path: Path, key: NewKey) -> None:
    revoke_key(path, key.entry.id)


def expire(path: Path, key: NewKey) -> None:
    """Nothing to do: the clock does it."""


@pytest.mark.parametrize("end", [revoke, narrow, expire])
@pytest.mark.parametrize("auto_ack", ["true", "false"])
async def test_a_poll_whose_key_has_ended_gets_nothing_and_leases_nothing(
    broker: Broker,
    clock: ManualClock,
    path: Path,
    end: Callable[[Path, NewKey], None],
    auto_ack: str,
) -> None:
    settings: dict[str, Any] = {"api_keys": str(path)}
    expires_at = None
    if end is expire:
        expires_at = datetime.fromtimestamp(seconds(clock), UTC) + timedelta(seconds=CHECK_SECONDS)
    key = create_key(["consumer"], queues=["orders"], expires_at=expires_at)
    add_key(path, key.entry)
    await broker.queues.configure("orders")

    async with knock(make_app(broker, clock, **settings), x_api_key=key.text) as client:
        poll = await waiting(broker, client, autoAck=auto_ack)
        end(path, key)
        clock.advance(CHECK_SECONDS)
        await broker.push("orders", [Draft(b"1")])
        answer = await poll

    assert answer.status_code == 401
    delivery = await broker.pop("orders")
    assert delivery is not None
    assert delivery.messages[0].attempt == 1


async def test_a_poll_whose_key_has_ended_passes_its_message_on(
    broker: Broker, clock: ManualClock, path: Path
) -> None:
    revoked, other = create_key(["consumer"]), create_key(["consumer"])
    add_key(path, revoked.entry)
    add_key(path, other.entry)
    await broker.queues.configure("orders")
    app = make_app(broker, clock, api_keys=str(path))

    async with knock(app, x_api_key=revoked.text) as first, knock(app, x_api_key=other.text) as two:
        ended = await waiting(broker, first)
        poll = await waiting(broker, two, 2)
        revoke_key(path, revoked.entry.id)
        clock.advance(CHECK_SECONDS)
        await broker.push("orders", [Draft(b"1")])

        assert (await ended).status_code == 401
        assert (await poll).json()["messages"][0]["data"] == 1


async def test_a_reader_whose_key_has_ended_is_not_told_what_is_new(
    broker: Broker, clock: ManualClock, path: Path
) -> None:
    key = create_key(["reader"])
    add_key(path, key.entry)
    await broker.queues.configure("orders")
    app = make_app(broker, clock, api_keys=str(path))

    async with knock(app, x_api_key=key.text) as client:
        body: dict[str, Any] = {"queues": ["orders"]}
        now = (await client.post("/api/v1/journal/heads", json=body)).json()["heads"]
        body |= {"after": now, "wait": 60_000}
        heads = asyncio.create_task(client.post("/api/v1/journal/heads", json=body))
        while not broker.insight.queues.parked(lambda _: True):
            await turn()
        revoke_key(path, key.entry.id)
        clock.advance(CHECK_SECONDS)
        await broker.push("orders", [Draft(b"1")])

        assert (await heads).status_code == 401
