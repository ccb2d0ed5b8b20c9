"""Two servers that publish the same at once: each message is there once."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from skep import Broker
from skep.store.postgres.store import PostgresStore
from tests.support.broker_builders import make_broker
from tests.support.sink_builders import DUPLICATE, IN_STEPS, commit, left, numbers, payloads, stage

TIMES = 8


@pytest.fixture
async def servers(url: str) -> AsyncIterator[list[Broker]]:
    async with (
        make_broker(PostgresStore(url), limits=IN_STEPS) as one,
        make_broker(PostgresStore(url), limits=IN_STEPS) as other,
    ):
        yield [one, other]


@pytest.mark.parametrize("count", [3, 12])
async def test_two_servers_that_commit_the_same_version_publish_it_once(
    servers: list[Broker], store: PostgresStore, count: int
) -> None:
    expected: list[bytes] = []
    for version in range(TIMES):
        first, stop = version * count, (version + 1) * count
        chunks = [numbers(at, min(at + 2, stop)) for at in range(first, stop, 2)]
        done = await stage(servers[version % 2], "s", *chunks, version=version)

        answers = await asyncio.gather(*(commit(each, done, version=version) for each in servers))

        assert DUPLICATE in answers
        assert sorted(answer.duplicate for answer in answers) == [False, True]
        expected += [b"%d" % number for number in range(first, stop)]

    assert await left(store) == {}
    assert await payloads(servers[0]) == expected


async def test_two_servers_that_commit_other_stages_as_one_version_publish_those_of_one(
    servers: list[Broker], store: PostgresStore
) -> None:
    for version in range(TIMES):
        done = [
            await stage(each, f"s{number}", numbers(0, 3), numbers(3, 6), version=version)
            for number, each in enumerate(servers)
        ]

        answers = await asyncio.gather(
            *(commit(each, some, version=version) for each, some in zip(servers, done, strict=True))
        )

        assert sorted(answer.duplicate for answer in answers) == [False, True]

    assert await left(store) == {}
    assert await payloads(servers[1]) == [b"%d" % number for number in range(6)] * TIMES
