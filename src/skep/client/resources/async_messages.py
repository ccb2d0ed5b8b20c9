"""Messages on a server, without a lease.

The source of ``sync_messages.py``, which ``make sync`` writes.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from skep.client.async_connection import AsyncConnection
from skep.client.request import delete, post, read
from skep.errors import MessageNotFound
from skep.model.address import address_of, partition_id
from skep.model.message import Message, Page
from skep.model.name import check_id, check_label, check_name, check_transaction_id
from skep.wire import paths
from skep.wire.message.message import (
    GiveUpBody,
    MessageDetail,
    MovedToDeadLetters,
    WireMessages,
    from_message,
)

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
"""Without a start, the server lists the last hour."""


class AsyncMessagesResource:
    """The methods of ``Broker.messages``, over HTTP."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def get(self, message_id: UUID) -> Message:
        """Return a message by its id; raise ``MessageNotFound`` if it was deleted."""
        return await self._get(_path(message_id))

    async def find(self, queue: str, partition: str, transaction_id: str) -> Message | None:
        """Return the message with this transaction id, chosen by its producer or derived."""
        check_transaction_id("transaction_id", transaction_id)
        check_name("partition", partition)
        # The route needs the id of the partition, which any of its messages has.
        page = await self.list(queue, partition=partition, limit=1)
        if not page.messages:
            return None
        partition_uuid = partition_id(page.messages[0].partition_number)
        try:
            message = await self._get(paths.message(partition_uuid, transaction_id))
        except MessageNotFound:
            return None
        return message if message.transaction_id == transaction_id else None

    async def list(
        self,
        queue: str,
        *,
        partition: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> Page:
        """Return messages of a queue or of one partition, newest first, a page at a time.

        ``before`` is the ``next`` of the previous page. A page may be short although it is not
        the last one.
        """
        request = read(
            paths.MESSAGES,
            queue=check_name("queue", queue),
            partition=check_label("partition", partition),
            before=before,
            limit=limit,
            from_=BEGINNING,
        )
        answer = await self._connection.send(request)
        page = answer.decode(WireMessages)
        return Page([from_message(message) for message in page.messages], page.next)

    async def delete(self, message_id: UUID) -> None:
        """Delete one message. Its offset stays empty, and its transaction id can be used again."""
        await self._connection.send(delete(_path(message_id)))

    async def give_up(
        self, message_id: UUID, *, group: str | None = None, error: str = ""
    ) -> Sequence[str]:
        """Dead-letter a message before it is delivered.

        For one group, or for all groups that have not read it; returns their names. Raises
        ``Conflict`` while the message is in flight.
        """
        body = GiveUpBody(consumer_group=check_label("group", group), error=error)
        path = paths.give_up(*_place(message_id))
        answer = await self._connection.send(post(path, body, repeatable=False))
        return answer.decode(MovedToDeadLetters).consumer_groups

    async def _get(self, path: str) -> Message:
        answer = await self._connection.send(read(path))
        return from_message(answer.decode(MessageDetail))


def _path(message_id: UUID) -> str:
    return paths.message(*_place(message_id))


def _place(message_id: UUID) -> tuple[UUID, str]:
    """Return the partition id and the message id, as the routes need them."""
    number, _ = address_of(check_id("message_id", message_id))
    return partition_id(number), str(message_id)
