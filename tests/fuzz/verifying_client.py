"""Somebody who is alone with his queues, asks another server each time, and knows the answers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

from skep import Ack, Delivery, Draft, Push
from skep.client.request import post
from skep.errors import OutcomeUnknown, SkepError, Unavailable
from skep.model.address import partition_id
from skep.wire.message.ack import AckBatchBody, Acked, AckItem
from skep.wire.paths import API
from tests.support.faults.history import Invocation, Recorder, Return
from tests.support.faults.recording_clients import Hopping

GROUP = "own"
LEASE_SECONDS = 300
"""Longer than any fault."""
MANY = 7
REST = 0.2
"""Seconds after which every server has heard of everything."""


class Abandoned(Exception):
    """Nobody knows what became of the last request: the queue is left as it is."""


class VerifyingClient:
    def __init__(self, queue: Hopping, recorder: Recorder, random: Random) -> None:
        self._servers = queue
        self._recorder = recorder
        self._random = random
        self._count = 0
        self._name = ""

    async def run(self, is_over: Callable[[], bool]) -> None:
        stories: Sequence[Callable[[], Awaitable[None]]] = (
            self._consume,
            self._transact,
            self._seek,
            self._clear,
            self._clear_twice,
            self._recreate,
            self._limit,
        )
        while not is_over():
            self._count += 1
            self._name = f"own-{self._count}"
            try:
                await self._random.choice(stories)()
            except Abandoned:
                await asyncio.sleep(0.05)

    # What he does with a queue.

    async def _consume(self) -> None:
        await self._push(MANY)
        delivery = await self._pop(MANY)
        await self._expect(
            f"{MANY} acknowledged", lambda: self._ack_by_name(delivery), lambda done: done
        )
        await self._pop(0)
        await self._depth(0)

    async def _transact(self) -> None:
        await self._push(2)
        delivery = await self._pop(2)
        parts = [Ack(str(delivery.lease_id)), Push(self._name, [Draft(b"3", "q")])]
        key = f"{self._name}-key"
        for repeated in (False, True):
            await self._expect(
                f"repeated {repeated}",
                lambda: self._servers.transact(parts, idempotency_key=key),
                lambda done: f"repeated {done.repeated}",
            )
        await self._pop(1)

    async def _seek(self) -> None:
        await self._push(3)
        delivery = await self._pop(3)
        await self._expect(
            "3 done", lambda: self._servers.ack(delivery), lambda done: f"{done.completed} done"
        )
        await self._move("beginning")
        await self._pop(3)
        await self._push(1)
        await self._move("end")
        await self._pop(0)

    async def _clear(self) -> None:
        await self._push(4)
        await self._expect(
            "4 removed",
            lambda: self._servers.queues.clear(self._name),
            lambda count: f"{count} removed",
        )
        await self._pop(0)
        await self._depth(0)

    async def _clear_twice(self) -> None:
        await self._push(40)
        await self._pop(40)

        async def clear() -> int:
            both = (self._servers.queues.clear(self._name) for _ in range(2))
            return sum(await asyncio.gather(*both))

        await self._expect("40 removed", clear, lambda count: f"{count} removed")
        for _ in range(3):
            await self._depth(0)

    async def _recreate(self) -> None:
        await self._push(2)
        await self._pop(2)
        await asyncio.sleep(REST)
        await self._expect(
            "deleted", lambda: self._servers.queues.delete(self._name), lambda _: "deleted"
        )
        await self._configure(lease_time=LEASE_SECONDS)
        await self._push(3)
        await self._pop(3)

    async def _limit(self) -> None:
        await self._configure(max_size=2)
        await self._expect(
            "QueueFull", lambda: self._servers.push(self._name, _drafts(3)), lambda _: "stored"
        )
        await self._push(2)

    # Requests, and what they must be answered.

    async def _push(self, count: int) -> None:
        await self._expect(
            f"{count} stored",
            lambda: self._servers.push(self._name, _drafts(count)),
            lambda receipts: f"{len(receipts)} stored",
        )

    async def _pop(self, count: int) -> Delivery:
        def described(delivery: Delivery | None) -> str:
            return f"{len(delivery.messages) if delivery else 0} delivered"

        delivery: Delivery = await self._expect(
            f"{count} delivered",
            lambda: self._servers.pop(
                self._name, group=GROUP, batch=100, partitions=10, lease_seconds=LEASE_SECONDS
            ),
            described,
        )
        if count and not delivery:
            raise Abandoned
        return delivery

    async def _move(self, to: str) -> None:
        await self._expect(
            "moved", lambda: self._servers.groups.seek(self._name, GROUP, to), lambda _: "moved"
        )

    async def _configure(self, **options: Any) -> None:
        await self._expect(
            "configured",
            lambda: self._servers.queues.configure(self._name, **options),
            lambda _: "configured",
        )

    async def _depth(self, depth: int) -> None:
        await self._expect(
            f"depth {depth}",
            lambda: self._servers.queues.stats(self._name),
            lambda stats: f"depth {stats.depth}",
        )

    async def _ack_by_name(self, delivery: Delivery) -> str:
        items = [
            AckItem(
                transaction_id=message.transaction_id,
                partition_id=partition_id(message.partition_number),
                lease_id=delivery.lease_id,
            )
            for message in delivery.messages
        ]
        body = AckBatchBody(acknowledgments=items)
        request = post(f"{API}/ack/batch", body, repeatable=False)
        answer = await self._servers.connection.send(request)
        done = answer.decode(list[Acked])
        return f"{sum(one.success for one in done)} acknowledged"

    async def _expect(
        self, expects: str, call: Callable[[], Awaitable[Any]], describe: Callable[[Any], str]
    ) -> Any:
        """Ask, and write down what should come and what came; the first surprise is enough."""
        coroutine = call()
        asked = self._recorder.invoke(
            Invocation(does="alone", queue=self._name, server=self._servers.asked, expects=expects)
        )
        try:
            answer = await coroutine
        except (Unavailable, OutcomeUnknown) as error:
            self._recorder.answer(asked, Return(result="info", error=str(error)))
            raise Abandoned from None
        except SkepError as error:
            answer, got = None, type(error).__name__
        else:
            got = describe(answer)
        self._recorder.answer(asked, Return(got=got))
        if got != expects:
            raise Abandoned
        return answer


def _drafts(count: int) -> list[Draft]:
    return [Draft(b"%d" % number, "pq"[number % 2]) for number in range(count)]
