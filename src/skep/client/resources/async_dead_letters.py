"""Dead letters on a server: list, replay, delete.

The source of ``sync_dead_letters.py``, which ``make sync`` writes.
"""

from collections.abc import Sequence
from datetime import datetime

from skep.client.async_connection import AsyncConnection
from skep.client.request import check_moment, delete, post, read, steps
from skep.model.dead_letter import FailedMessage
from skep.model.message import Receipt
from skep.model.name import MAX_NUMBER, check_count, check_label, check_name
from skep.wire import paths
from skep.wire.message.dead_letter import (
    DeadLetterSelection,
    DeadLettersResponse,
    DeletedDeadLetters,
    Replayed,
    WireDeadLetter,
    to_failed_message,
    to_receipt,
)


class AsyncDeadLettersResource:
    """The methods of ``Broker.dead_letters``, over HTTP."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def count(
        self,
        queue: str,
        *,
        group: str | None = None,
        partition: str | None = None,
        from_: datetime | None = None,
        to: datetime | None = None,
    ) -> int:
        """Return the number of dead letters, with the filters of ``list``."""
        page = await self._page(queue, group, partition, from_, to, None, 1)
        return page.total

    async def get(self, queue: str, number: int) -> FailedMessage:
        """Return a dead letter by its number."""
        check_count("number", number, most=MAX_NUMBER)
        request = read(paths.dead_letter(check_name("queue", queue), number))
        answer = await self._connection.send(request)
        return to_failed_message(answer.decode(WireDeadLetter))

    async def replay(self, queue: str, numbers: Sequence[int]) -> Sequence[Receipt]:
        """Push dead letters again, at the end of their partitions, for every group of the queue.

        Each is removed from the dead letters and appended in one change, with its transaction
        id. The first number that does not exist ends the call.
        """
        receipts: list[Receipt] = []
        for chunk in steps(numbers):
            replayed = await self._replay(queue, DeadLetterSelection(numbers=chunk))
            receipts += map(to_receipt, replayed.messages)
        return receipts

    async def replay_all(
        self, queue: str, *, group: str | None = None, partition: str | None = None
    ) -> int:
        """Replay all current dead letters, oldest first; return how many."""
        choice = DeadLetterSelection(
            consumer_group=check_label("group", group),
            partition=check_label("partition", partition),
            all=group is None and partition is None,
        )
        replayed = await self._replay(queue, choice)
        return replayed.replayed

    async def delete(self, queue: str, numbers: Sequence[int]) -> None:
        """Delete dead letters, in requests of a few hundred.

        If a number does not exist, nothing of its request is deleted, and the call ends.
        """
        path = paths.dead_letters(check_name("queue", queue))
        for chunk in steps(numbers):
            await self._connection.send(delete(path, numbers=",".join(map(str, chunk))))

    async def delete_all(
        self, queue: str, *, group: str | None = None, partition: str | None = None
    ) -> int:
        """Delete all current dead letters; return how many."""
        request = delete(
            paths.dead_letters(check_name("queue", queue)),
            consumerGroup=check_label("group", group),
            partition=check_label("partition", partition),
            all=group is None and partition is None,
        )
        answer = await self._connection.send(request)
        return answer.decode(DeletedDeadLetters).deleted

    async def list(
        self,
        queue: str,
        *,
        group: str | None = None,
        partition: str | None = None,
        from_: datetime | None = None,
        to: datetime | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> Sequence[FailedMessage]:
        """Return dead letters, newest first. ``before`` is the last number of the previous page."""
        page = await self._page(queue, group, partition, from_, to, before, limit)
        return [to_failed_message(letter) for letter in page.messages]

    async def _page(
        self,
        queue: str,
        group: str | None,
        partition: str | None,
        from_: datetime | None,
        to: datetime | None,
        before: int | None,
        limit: int,
    ) -> DeadLettersResponse:
        request = read(
            paths.DEAD_LETTERS,
            queue=check_name("queue", queue),
            consumerGroup=check_label("group", group),
            partition=check_label("partition", partition),
            from_=check_moment("from_", from_),
            to=check_moment("to", to),
            before=before,
            limit=limit,
        )
        answer = await self._connection.send(request)
        return answer.decode(DeadLettersResponse)

    async def _replay(self, queue: str, choice: DeadLetterSelection) -> Replayed:
        request = post(paths.replay(check_name("queue", queue)), choice, repeatable=False)
        answer = await self._connection.send(request)
        return answer.decode(Replayed)
