"""The clients of a run: each does one thing after the other, and records it before and after."""

from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, Literal, TypeAlias, TypeVar
from uuid import UUID

from msgspec.structs import replace

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
from skep.client.request import ClientRequest, post
from skep.errors import LeaseLost, OutcomeUnknown, SkepError
from skep.model.address import partition_id
from skep.model.dead_letter import FailedMessage
from skep.model.message import Receipt
from skep.model.operation import Operation as Step
from skep.wire.message.ack import AckBatchBody, Acked, AckItem
from skep.wire.paths import API
from tests.support.faults.history import (
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


class Hopping:
    """Several servers behind one name: each request goes to the next of them."""

    def __init__(self, clients: Sequence[AsyncClient]) -> None:
        self._clients = clients
        self._turn = 0
        self.asked = ""
        """The server that the last request went to."""

    def next(self) -> AsyncClient:
        self._turn = (self._turn + 1) % len(self._clients)
        self.asked = f"server{self._turn}"
        return self._clients[self._turn]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.next(), name)


Queue: TypeAlias = Broker | AsyncClient | Hopping
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
        server = getattr(self._queue, "asked", "")
        asked = self._recorder.invoke(replace(asked, server=server))
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

    receipts: Sequence[Receipt] = ()
    """Those of the last push that was answered."""

    async def push(self, name: str, partition: str, values: Sequence[str], *, ids: bool) -> bool:
        sent = sending(partition, values, with_ids=ids)
        asked = Invocation(does="push", client=name, queue=SOURCE, sent=sent)
        receipts = await self._ask(
            asked,
            self._queue.push(SOURCE, drafts(sent)),
            lambda receipts: Return(seen=received(sent, receipts)),
        )
        self.receipts = receipts or ()
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

    async def complete_by_name(self, delivery: Delivery, messages: Sequence[Message]) -> None:
        """Acknowledge with ``/ack`` or ``/ack/batch``, which name messages by transaction id."""
        items = [
            AckItem(
                transaction_id=message.transaction_id,
                partition_id=partition_id(message.partition_number),
                lease_id=delivery.lease_id,
            )
            for message in messages
        ]
        path, body = f"{API}/ack/batch", AckBatchBody(acknowledgments=items)
        request = post(path, body, repeatable=False)
        if len(items) == 1:
            request = post(f"{API}/ack", items[0], repeatable=False)
        asked = self._settling(delivery, completed=messages)
        await self._ask(asked, _acked(self._queue, request), lambda _: Return())

    async def give_up(self, message: UUID, place: tuple[str, int]) -> None:
        """Make a message a dead letter of the group, whoever has it."""
        asked = Invocation(does="give_up", settles=SOURCE, group=self._group, failed=[place])
        assert not isinstance(self._queue, Broker)
        await self._ask(
            asked,
            self._queue.messages.give_up(message, group=self._group),
            lambda groups: Return(dead=[place] if self._group in groups else []),
        )

    async def seek(self, to: Literal["beginning", "end"]) -> None:
        asked = Invocation(does="seek", settles=SOURCE, group=self._group, to=to)
        await self._ask(asked, self._queue.groups.seek(SOURCE, self._group, to), lambda _: Return())

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


async def _acked(queue: Queue, request: ClientRequest) -> None:
    """Send an acknowledgement; that it changed nothing is a refusal here, as it is elsewhere."""
    assert not isinstance(queue, Broker)
    answer = await queue.connection.send(request)
    for one in answer.decode(list[Acked]):
        if not one.success:
            raise LeaseLost(one.error or "")


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


def shown_letter(letter: FailedMessage) -> Seen:
    value, digest = value_of(letter.payload), digest_of(letter.payload)
    return Seen(letter.partition, letter.offset, value, digest)


def places(messages: Sequence[Message]) -> list[tuple[str, int]]:
    return [(message.partition, message.offset) for message in messages]
