"""The queue over HTTP.

The source of ``sync_client.py``, which ``make sync`` writes.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from ssl import SSLContext
from types import TracebackType
from typing import Self

import httpx

from skep.client.async_connection import AsyncConnection
from skep.client.request import Request, post
from skep.client.resources.async_dead_letters import AsyncDeadLetters
from skep.client.resources.async_groups import AsyncGroups
from skep.client.resources.async_maintenance import AsyncMaintenance
from skep.client.resources.async_messages import AsyncMessages
from skep.client.resources.async_pipelines import AsyncPipelines
from skep.client.resources.async_queues import AsyncQueues
from skep.client.resources.async_traces import AsyncTraces
from skep.client.retry import Retry
from skep.client.transaction_id import with_ids
from skep.model.message import Delivery, Draft, Message, Receipt
from skep.model.name import QUEUE_MODE
from skep.model.operation import (
    Operation,
    Settlement,
    Status,
    Transaction,
    Verdict,
    lease_id_of,
    messages_of,
    verdicts_on,
)
from skep.model.pop_request import PopRequest
from skep.wire import paths
from skep.wire.admin.maintenance import BackupBody, BackupResponse
from skep.wire.message.ack import (
    ExtendBody,
    Extended,
    SettleBody,
    SettleResponse,
    from_settled,
    from_verdicts,
    to_settle_body,
)
from skep.wire.message.pop import MAX_TIMEOUT, Delivered, to_delivery, to_query
from skep.wire.message.push import (
    PushBody,
    PushResult,
    check_drafts,
    from_drafts,
    to_receipts,
    to_receipts_of_repetition,
)
from skep.wire.message.transaction import (
    TransactionBody,
    TransactionResponse,
    from_operations,
    to_transaction,
)
from skep.wire.problem import from_problem


class AsyncClient:
    """A queue on a server, with the words and the errors of the broker.

    Usage::

        async with AsyncClient("http://127.0.0.1:6632") as client:
            await client.push("orders", [Draft.json({"total": 12}, "alice")])
            delivery = await client.pop("orders", group="billing", wait=30)
            if delivery:
                await client.ack(delivery)

    ``timeout`` is how many seconds one attempt may take, besides what a pop waits on purpose;
    ``retry`` says how many there are. ``transport`` is httpx's, for tests and for what a URL
    cannot say. Nothing is read from the environment.

    What is not about a single message is in ``queues``, ``groups``, ``messages``,
    ``dead_letters``, ``traces``, ``pipelines`` and ``maintenance``, as it is in the broker.
    """

    def __init__(
        self,
        url: str = paths.DEFAULT_URL,
        *,
        token: str | None = None,
        timeout: float = 30.0,
        retry: Retry | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        verify: bool | SSLContext = True,
    ) -> None:
        self.connection = AsyncConnection(
            url, token=token, timeout=timeout, retry=retry, transport=transport, verify=verify
        )
        """What all of it is sent through."""
        self.queues = AsyncQueues(self.connection)
        self.groups = AsyncGroups(self.connection)
        self.messages = AsyncMessages(self.connection)
        self.dead_letters = AsyncDeadLetters(self.connection)
        self.traces = AsyncTraces(self.connection)
        self.pipelines = AsyncPipelines(self.connection)
        self.maintenance = AsyncMaintenance(self.connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self.connection.close()

    async def push(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Receipt]:
        """Append drafts to their partitions, all of them or none; durable on return.

        A draft without a transaction id gets one before it is sent for the first time: so a
        push whose answer is lost can be repeated, and is, without making a second message.
        ``duplicate`` means that somebody else was faster, not that this call had to try twice.
        """
        named = with_ids(check_drafts(drafts))
        body = PushBody(items=from_drafts(queue, named))
        answer = await self.connection.send(post(paths.PUSH, body, repeatable=True))
        receipts = to_receipts(named, answer.decode(list[PushResult]))
        return to_receipts_of_repetition(receipts) if answer.uncertain else receipts

    async def pop(
        self,
        queue: str | None = None,
        *,
        group: str = QUEUE_MODE,
        partition: str | None = None,
        namespace: str | None = None,
        task: str | None = None,
        batch: int = 1,
        partitions: int = 1,
        wait: float = 0,
        auto_ack: bool = False,
        lease_seconds: int | None = None,
        subscription_mode: str = "all",
        subscription_from: datetime | None = None,
    ) -> Delivery | None:
        """Lease the next messages for a group; None if there are none within ``wait`` seconds.

        From one queue, from one partition of it, or from all queues with a ``namespace`` or
        ``task``, the highest priority first. ``batch`` bounds the messages, ``partitions``
        the partitions they come from. ``auto_ack`` acknowledges before delivering: what is
        then lost on its way is lost. The subscription matters at the group's first contact
        with a queue only: ``all``, ``new``, or from an instant.

        It is not repeated if its answer is lost: what was leased comes again when the lease
        is over.
        """
        wanted = PopRequest(
            queue=queue,
            group=group,
            partition=partition,
            namespace=namespace,
            task=task,
            batch=batch,
            partitions=partitions,
            wait=wait,
            auto_ack=auto_ack,
            lease_seconds=lease_seconds,
            subscription_mode=subscription_mode,
            subscription_from=subscription_from,
        ).checked()
        wanted.check_wait(MAX_TIMEOUT // 1000)
        request = Request(
            "GET", paths.pop(wanted.queue, wanted.partition), to_query(wanted), wait=wait
        )
        answer = await self.connection.send(request)
        return to_delivery(answer.decode(Delivered))

    async def ack(
        self, lease: Delivery | str, messages: Iterable[Message] | None = None
    ) -> Settlement:
        """Acknowledge messages of a delivery; all of them if none are named."""
        if messages is None:
            return await self.settle_all(lease, "completed")
        return await self.settle(lease, verdicts_on(messages, "completed"))

    async def fail(
        self,
        lease: Delivery | str,
        messages: Iterable[Message] | None = None,
        *,
        error: str = "",
    ) -> Settlement:
        """Report messages of a delivery as failed; all of them if none are named.

        If all that was delivered of a partition fails it comes again after the queue's
        ``retry_delay``, up to ``retry_limit`` times. If only some do, these become dead letters.
        """
        return await self.settle(lease, verdicts_on(messages_of(lease, messages), "failed", error))

    async def settle(self, lease: Delivery | str, verdicts: Sequence[Verdict]) -> Settlement:
        """Say of each message what became of it. A late call raises ``LeaseLost``.

        If an answer is lost it is repeated, and counts what the repetition found to do. If the
        repetition comes too late nobody knows whether the first was in time: ``OutcomeUnknown``.
        """
        return await self._settle(lease, SettleBody(verdicts=from_verdicts(verdicts)))

    async def settle_all(
        self, lease: Delivery | str, status: Status, *, error: str = ""
    ) -> Settlement:
        """Say the same of all that a lease holds, also if only its id is at hand."""
        return await self._settle(lease, to_settle_body(status, error))

    async def extend(self, lease: Delivery | str, seconds: int) -> datetime:
        """Keep a lease for at least ``seconds`` from now; return when it ends."""
        lease_id = lease_id_of(lease)
        body = ExtendBody(seconds=seconds)
        request = post(paths.extend(lease_id), body, repeatable=True, last_counts=True)
        answer = await self.connection.send(request)
        return answer.decode(Extended).new_expires_at

    async def transact(
        self,
        operations: Sequence[Operation],
        *,
        required_leases: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> Transaction:
        """Do several things together or not at all: ``Push``, ``Ack`` and ``Extend``.

        Every lease named must be alive when it is committed. With an ``idempotency_key`` a
        repetition changes nothing and gets the first answer, for a day; only then is it
        repeated here if its answer is lost.
        """
        body = TransactionBody(
            operations=from_operations(operations),
            required_leases=tuple(required_leases),
            idempotency_key=idempotency_key,
        )
        request = post(paths.TRANSACTION, body, repeatable=idempotency_key is not None)
        answer = await self.connection.send(request)
        done = answer.decode(TransactionResponse)
        if done.problem is not None:
            raise from_problem(done.problem)
        return to_transaction(operations, done)

    async def backup(self, path: str) -> str:
        """Let the server copy its store to ``path`` below its backup directory; return where.

        There must be nothing at ``path`` yet. Work goes on meanwhile.
        """
        answer = await self.connection.send(
            post(paths.BACKUP, BackupBody(path=path), repeatable=False)
        )
        return answer.decode(BackupResponse).path

    async def _settle(self, lease: Delivery | str, body: SettleBody) -> Settlement:
        request = post(paths.settle(lease_id_of(lease)), body, repeatable=True)
        answer = await self.connection.send(request)
        return from_settled(answer.decode(SettleResponse))
