"""The clients of a run: each does one thing after the other, and records it before and after."""

from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import TypeAlias, TypeVar

from skep import (
    Ack,
    AsyncClient,
    Broker,
    Delivery,
    Draft,
    Message,
    Push,
    Settlement,
    Transaction,
    Verdict,
)
from skep.errors import OutcomeUnknown, SkepError
from skep.model.message import Receipt
from skep.model.operation import Operation as Step
from tests.faults.history import (
    Invocation,
    Recorder,
    Result,
    Return,
    Seen,
    digest_of,
    payload_of,
    sending,
    value_of,
)

SOURCE, TARGET = "orders", "shipped"
LEASE_SECONDS = 1

T = TypeVar("T")
Queue: TypeAlias = Broker | AsyncClient
"""What is used: in the same process, or over HTTP."""


class Client:
    """Somebody who uses a queue and writes down what he asks and what he hears."""

    def __init__(self, queue: Queue, recorder: Recorder, random: Random) -> None:
        self._queue = queue
        self._recorder = recorder
        self._random = random
        self.in_doubt = False
        """Whether nobody knows what became of the last thing asked."""

    async def _ask(
        self, asked: Invocation, call: Awaitable[T], answer: Callable[[T], Return]
    ) -> T | None:
        """The result of a call; None if it was refused or nobody knows."""
        asked = self._recorder.invoke(asked)
        try:
            result = await call
        except SkepError as error:
            self.in_doubt = isinstance(error, OutcomeUnknown)
            outcome: Result = "info" if self.in_doubt else "fail"
            said = f"{type(error).__name__}: {error}"
            self._recorder.answer(asked, Return(result=outcome, error=said))
            return None
        self.in_doubt = False
        self._recorder.answer(asked, answer(result))
        return result


class Producer(Client):
    """Pushes values of his own, numbered, one push at a time."""

    async def push(self, name: str, partition: str, values: Sequence[str], *, ids: bool) -> bool:
        sent = sending(partition, values, with_ids=ids)
        asked = Invocation(does="push", client=name, queue=SOURCE, sent=sent)
        receipts = await self._ask(
            asked,
            self._queue.push(SOURCE, drafts(sent)),
            lambda receipts: Return(seen=received(sent, receipts)),
        )
        return receipts is not None


class Consumer(Client):
    """Pops for a group, and says what became of it: all, some, in any order, or nothing."""

    def __init__(
        self,
        queue: Queue,
        recorder: Recorder,
        random: Random,
        group: str,
        lease_seconds: int = LEASE_SECONDS,
    ) -> None:
        super().__init__(queue, recorder, random)
        self._group = group
        self._lease_seconds = lease_seconds

    async def pop(self, *, batch: int, partitions: int = 1, wait: float = 0) -> Delivery | None:
        asked = Invocation(
            does="pop", queue=SOURCE, group=self._group, lease_ms=self._lease_seconds * 1000
        )
        return await self._ask(
            asked,
            self._queue.pop(
                SOURCE,
                group=self._group,
                batch=batch,
                partitions=partitions,
                wait=wait,
                lease_seconds=self._lease_seconds,
            ),
            lambda delivery: Return(
                lease=(delivery and delivery.lease_id) or "",
                seen=[shown(message) for message in delivery.messages] if delivery else [],
            ),
        )

    async def extend(self, delivery: Delivery) -> bool:
        """Ask for as long again, from now on."""
        asked = Invocation(
            does="extend",
            group=self._group,
            lease=delivery.lease_id or "",
            lease_ms=self._lease_seconds * 1000,
        )
        until = await self._ask(
            asked, self._queue.extend(delivery, self._lease_seconds), lambda _: Return()
        )
        return until is not None

    async def complete_all(self, delivery: Delivery) -> None:
        asked = self._settling(delivery, completed=delivery.messages)
        await self._ask(asked, self._queue.ack(delivery), lambda _: Return())

    async def complete(self, delivery: Delivery, messages: Sequence[Message]) -> None:
        await self._settle(delivery, completed=messages)

    async def fail(
        self, delivery: Delivery, failed: Sequence[Message], completed: Sequence[Message] = ()
    ) -> None:
        await self._settle(delivery, completed=completed, failed=failed)

    async def _settle(
        self,
        delivery: Delivery,
        *,
        completed: Sequence[Message] = (),
        failed: Sequence[Message] = (),
    ) -> None:
        def answer(done: Settlement) -> Return:
            # The answer counts them; it is all of those that failed, or none.
            return Return(dead=places(failed) if done.dead_letters == len(failed) else [])

        verdicts = [Verdict(m.partition_number, m.offset) for m in completed]
        verdicts += [Verdict(m.partition_number, m.offset, "failed", "boom") for m in failed]
        asked = self._settling(delivery, completed=completed, failed=failed)
        await self._ask(asked, self._queue.settle(delivery, verdicts), answer)

    def _settling(
        self,
        delivery: Delivery,
        *,
        completed: Sequence[Message],
        failed: Sequence[Message] = (),
    ) -> Invocation:
        return Invocation(
            does="settle",
            settles=SOURCE,
            group=self._group,
            lease=delivery.lease_id or "",
            completed=places(completed),
            failed=places(failed),
        )


class Copier(Consumer):
    """Moves messages to another queue: the ack and the push are one transaction."""

    async def copy(self, delivery: Delivery) -> None:
        await self.transact(self.copying(delivery))

    def copying(self, delivery: Delivery) -> Invocation:
        sent = [
            Seen(m.partition, -1, value_of(m.payload), digest_of(m.payload))
            for m in delivery.messages
        ]
        lease = delivery.lease_id or ""
        return Invocation(
            does="transact",
            queue=TARGET,
            group=self._group,
            lease=lease,
            key=f"copy-{lease}",
            sent=sent,
            settles=SOURCE,
            completed=places(delivery.messages),
        )

    async def transact(self, asked: Invocation) -> None:
        """What ``asked`` says, for the first time or again."""
        steps: list[Step] = [Ack(asked.lease), Push(asked.queue, drafts(asked.sent))]

        def answer(done: Transaction) -> Return:
            return Return(seen=received(asked.sent, done.receipts[0]))

        await self._ask(asked, self._queue.transact(steps, idempotency_key=asked.key), answer)


async def audit(used: Queue, recorder: Recorder, queue: str = SOURCE) -> None:
    """Read everything that a queue holds, as a new group does."""
    asked = recorder.invoke(Invocation(does="audit", queue=queue, group="audit"))
    seen: list[Seen] = []
    while delivery := await used.pop(
        queue, group="audit", batch=1000, partitions=100, auto_ack=True
    ):
        seen += map(shown, delivery.messages)
    recorder.answer(asked, Return(seen=seen))


def drafts(sent: Sequence[Seen]) -> list[Draft]:
    return [Draft(payload_of(one.value), one.partition, one.id) for one in sent]


def received(sent: Sequence[Seen], receipts: Sequence[Receipt]) -> list[Seen]:
    return [
        Seen(one.partition, receipt.offset, one.value, one.digest, one.id)
        for one, receipt in zip(sent, receipts, strict=True)
    ]


def shown(message: Message) -> Seen:
    return Seen(
        message.partition,
        message.offset,
        value_of(message.payload),
        digest_of(message.payload),
        message.chosen_id,
    )


def places(messages: Sequence[Message]) -> list[tuple[str, int]]:
    return [(message.partition, message.offset) for message in messages]
