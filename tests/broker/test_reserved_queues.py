"""The broker's own queues are not for clients, and what is damaged in them holds up nobody."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from skep import Broker, Draft
from skep.core.admin.push_buffer import BUFFER
from skep.core.journal.journal import Selection
from skep.core.produce.push_batch import PushBatch
from skep.errors import Invalid, QueueNotFound
from skep.model.change import Applied
from skep.model.name import RESERVED
from skep.model.operation import Push
from skep.model.sink import StagedRows
from tests.support.broker_builders import pop

OURS = f"{RESERVED}other"


def rows(**columns: Any) -> StagedRows:
    return StagedRows(payloads=[b"1"], **columns)


@pytest.mark.parametrize("name", [BUFFER, OURS])
@pytest.mark.parametrize(
    "attempt",
    [
        lambda queue, name: queue.push(name, [Draft(b"1")]),
        lambda queue, name: queue.pop(name),
        lambda queue, name: queue.transact([Push(name, [Draft(b"1")])]),
        lambda queue, name: queue.queues.configure(name),
        lambda queue, name: queue.queues.create(name),
        lambda queue, name: queue.sink.stage("a", 1, "s", 0, rows(), queue=name),
        lambda queue, name: queue.sink.stage("a", 1, "s", 0, rows(queues=[name])),
        lambda queue, name: queue.maintenance.buffer({name: [Draft(b"1")]}, None),
        lambda queue, name: queue.stream_queries.register("a", source_queue=name, config_hash="1"),
    ],
)
async def test_a_reserved_name_is_refused(
    queue: Broker, attempt: Callable[[Broker, str], Awaitable[object]], name: str
) -> None:
    await queue.maintenance.set_pushing(True)

    with pytest.raises(Invalid, match="reserved"):
        await attempt(queue, name)

    assert queue.maintenance.buffered == 0


@pytest.mark.parametrize(
    "attempt",
    [
        lambda queue: queue.queues.delete(BUFFER),
        lambda queue: queue.queues.clear(BUFFER),
        lambda queue: queue.queues.get(BUFFER),
        lambda queue: queue.groups.seek(BUFFER, "__QUEUE_MODE__", "end"),
        lambda queue: queue.messages.list(BUFFER),
        lambda queue: queue.journal.look(Selection(queues=(BUFFER,)), lambda _: True),
    ],
)
async def test_a_reserved_queue_is_not_there_for_clients(
    queue: Broker, attempt: Callable[[Broker], Awaitable[object]]
) -> None:
    await queue.maintenance.set_pushing(True)
    await queue.maintenance.buffer({"orders": [Draft(b"1")]}, None)

    with pytest.raises(QueueNotFound):
        await attempt(queue)

    assert queue.maintenance.buffered == 1


async def test_what_cannot_be_decoded_is_put_aside_and_the_rest_is_delivered(
    queue: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    await queue.maintenance.set_pushing(True)
    await queue.maintenance.buffer({"orders": [Draft(b"1")]}, "alice")
    await corrupt(queue, b"not MessagePack", b"\x93\xa6orders\x01\xc0")
    await queue.maintenance.buffer({"orders": [Draft(b"2")]}, "alice")

    await queue.maintenance.set_pushing(False)
    delivered: list[bytes] = []
    while len(delivered) < 2:
        delivered += [
            message.payload for message in (await pop(queue, wait=5, auto_ack=True)).messages
        ]
    letters = await queue.dead_letters.list(BUFFER)

    assert delivered == [b"1", b"2"]
    assert len(letters) == 2
    assert "dead-lettered an undeliverable" in caplog.text


async def corrupt(queue: Broker, *payloads: bytes) -> None:
    """Write what no version of the broker would into the buffer."""
    rows = [Draft(payload) for payload in payloads]
    inside = queue.maintenance._push_buffer
    batch = PushBatch(BUFFER, rows, inside._limits, internal=True)
    outcome = await inside._pusher.attempt(batch, None, based_on=inside._mode.basis)
    assert isinstance(outcome, Applied)
