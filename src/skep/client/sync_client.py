"""The asynchronous client.

Generated from ``async_client.py``: change that, then ``make sync``.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from ssl import SSLContext
from types import TracebackType
from typing import Self

import httpx

from skep.client.request import ClientRequest, post
from skep.client.resources.sync_dead_letters import DeadLettersResource
from skep.client.resources.sync_groups import GroupsResource
from skep.client.resources.sync_maintenance import MaintenanceResource
from skep.client.resources.sync_messages import MessagesResource
from skep.client.resources.sync_pipelines import PipelinesResource
from skep.client.resources.sync_queues import QueuesResource
from skep.client.resources.sync_traces import TracesResource
from skep.client.retry import Retry
from skep.client.sync_connection import Connection
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


class Client:
    """A client of one server, with the methods and errors of the broker.

    Usage::

        with Client("http://127.0.0.1:6632") as client:
            client.push("orders", [Draft.json({"total": 12}, "alice")])
            delivery = client.pop("orders", group="billing", wait=30)
            if delivery:
                client.ack(delivery)

    ``timeout`` is the maximum duration of one attempt in seconds, in addition to the ``wait`` of
    a pop; ``retry`` says how many attempts there are. ``transport`` is httpx's, for tests and for
    what a URL cannot express, such as a proxy. Nothing is read from the environment.

    Administration is in ``queues``, ``groups``, ``messages``, ``dead_letters``, ``traces``,
    ``pipelines`` and ``maintenance``, as in the broker.
    """

    def __init__(
        self,
        url: str = paths.DEFAULT_URL,
        *,
        token: str | None = None,
        timeout: float = 30.0,
        retry: Retry | None = None,
        transport: httpx.BaseTransport | None = None,
        verify: bool | SSLContext = True,
    ) -> None:
        self.connection = Connection(
            url, token=token, timeout=timeout, retry=retry, transport=transport, verify=verify
        )
        """Sends all requests of the client."""
        self.queues = QueuesResource(self.connection)
        self.groups = GroupsResource(self.connection)
        self.messages = MessagesResource(self.connection)
        self.dead_letters = DeadLettersResource(self.connection)
        self.traces = TracesResource(self.connection)
        self.pipelines = PipelinesResource(self.connection)
        self.maintenance = MaintenanceResource(self.connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()

    def push(self, queue: str, drafts: Sequence[Draft]) -> Sequence[Receipt]:
        """Append drafts to their partitions, all of them or none; durable on return.

        A draft without a transaction id gets one before it is first sent, so a push whose
        response is lost is retried without making a second message. ``duplicate`` means that
        another push stored the message before, not that this call was retried.
        """
        named = with_ids(check_drafts(drafts))
        body = PushBody(items=from_drafts(queue, named))
        answer = self.connection.send(post(paths.PUSH, body, repeatable=True))
        receipts = to_receipts(named, answer.decode(list[PushResult]))
        return to_receipts_of_repetition(receipts) if answer.uncertain else receipts

    def pop(
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

        Pops from one queue, from one partition of it, or from all queues with a ``namespace``
        or ``task``, the highest priority first. ``batch`` is the maximum number of messages,
        ``partitions`` that of partitions they come from. ``auto_ack`` acknowledges messages
        before they are delivered: if the response is lost they are not redelivered. The
        subscription applies only to the first pop of a group from a queue: ``all``, ``new``, or
        from an instant.

        A pop is not retried if its response is lost: its messages are redelivered when the
        lease expires.
        """
        pop_request = PopRequest(
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
        pop_request.check_wait(MAX_TIMEOUT // 1000)
        path = paths.pop(pop_request.queue, pop_request.partition)
        request = ClientRequest("GET", path, to_query(pop_request), wait=wait)
        answer = self.connection.send(request)
        return to_delivery(answer.decode(Delivered))

    def ack(self, lease: Delivery | str, messages: Iterable[Message] | None = None) -> Settlement:
        """Acknowledge messages of a delivery; all of them if none are named."""
        if messages is None:
            return self.settle_all(lease, "completed")
        return self.settle(lease, verdicts_on(messages, "completed"))

    def fail(
        self,
        lease: Delivery | str,
        messages: Iterable[Message] | None = None,
        *,
        error: str = "",
    ) -> Settlement:
        """Report messages of a delivery as failed; all of them if none are named.

        If all messages delivered from a partition fail, they are retried after the queue's
        ``retry_delay``, up to ``retry_limit`` times. If only some fail, those become dead letters.
        """
        return self.settle(lease, verdicts_on(messages_of(lease, messages), "failed", error))

    def settle(self, lease: Delivery | str, verdicts: Sequence[Verdict]) -> Settlement:
        """Report the outcome of each message; raise ``LeaseLost`` if the lease has expired.

        If a response is lost the call is retried, and the result counts what the retry did. If
        the lease has expired by then it raises ``OutcomeUnknown``: the first attempt may have been
        in time.
        """
        return self._settle(lease, SettleBody(verdicts=from_verdicts(verdicts)))

    def settle_all(self, lease: Delivery | str, status: Status, *, error: str = "") -> Settlement:
        """Report the same outcome for all messages of a lease; its id is enough."""
        return self._settle(lease, to_settle_body(status, error))

    def extend(self, lease: Delivery | str, seconds: int) -> datetime:
        """Extend a lease to at least ``seconds`` from now; return when it expires."""
        lease_id = lease_id_of(lease)
        body = ExtendBody(seconds=seconds)
        request = post(paths.extend(lease_id), body, repeatable=True, last_counts=True)
        answer = self.connection.send(request)
        return answer.decode(Extended).new_expires_at

    def transact(
        self,
        operations: Sequence[Operation],
        *,
        required_leases: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> Transaction:
        """Commit several operations atomically: ``Push``, ``Ack`` and ``Extend``.

        Every lease in ``required_leases`` must be live at the commit. With an
        ``idempotency_key``, a repeated call within a day changes nothing and returns the first
        result; only then is the call retried if its response is lost.
        """
        body = TransactionBody(
            operations=from_operations(operations),
            required_leases=tuple(required_leases),
            idempotency_key=idempotency_key,
        )
        request = post(paths.TRANSACTION, body, repeatable=idempotency_key is not None)
        answer = self.connection.send(request)
        done = answer.decode(TransactionResponse)
        if done.problem is not None:
            raise from_problem(done.problem)
        return to_transaction(operations, done)

    def backup(self, path: str) -> str:
        """Let the server copy its store to ``path`` in its backup directory; return the full path.

        ``path`` must not exist yet. The server keeps serving requests meanwhile.
        """
        answer = self.connection.send(post(paths.BACKUP, BackupBody(path=path), repeatable=False))
        return answer.decode(BackupResponse).path

    def _settle(self, lease: Delivery | str, body: SettleBody) -> Settlement:
        request = post(paths.settle(lease_id_of(lease)), body, repeatable=True)
        answer = self.connection.send(request)
        return from_settled(answer.decode(SettleResponse))
