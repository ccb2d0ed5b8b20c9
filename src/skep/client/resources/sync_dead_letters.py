"""Dead letters on a server: looking at them, sending them back, throwing them away.

Generated from ``async_dead_letters.py``: change that, then ``make sync``.
"""

from collections.abc import Sequence
from datetime import datetime

from skep.client.request import check_moment, delete, post, read, steps
from skep.client.sync_connection import Connection
from skep.model.dead_letter import FailedMessage
from skep.model.message import Receipt
from skep.model.name import MAX_NUMBER, check_count, check_label, check_name
from skep.wire import paths
from skep.wire.message.dead_letter import (
    DeadLetterPage,
    DeadLetterSelection,
    DeletedDeadLetters,
    Replayed,
    WireDeadLetter,
    to_failed_message,
    to_receipt,
)


class DeadLetters:
    """What ``Broker.dead_letters`` has, over HTTP."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def count(
        self,
        queue: str,
        *,
        group: str | None = None,
        partition: str | None = None,
        from_: datetime | None = None,
        to: datetime | None = None,
    ) -> int:
        """How many there are, with the filter of ``list``."""
        found = self._page(queue, group, partition, from_, to, None, 1)
        return found.total

    def get(self, queue: str, number: int) -> FailedMessage:
        """One dead letter by its number."""
        check_count("number", number, most=MAX_NUMBER)
        request = read(paths.dead_letter(check_name("queue", queue), number))
        answer = self._connection.send(request)
        return to_failed_message(answer.decode(WireDeadLetter))

    def replay(self, queue: str, numbers: Sequence[int]) -> Sequence[Receipt]:
        """Put dead letters back at the end of their partitions, for every group of the queue.

        Each leaves the dead letters in the same change in which it enters the queue, under
        the transaction id that it had. The first that does not exist stops the rest.
        """
        receipts: list[Receipt] = []
        for some in steps(numbers):
            replayed = self._replay(queue, DeadLetterSelection(numbers=some))
            receipts += map(to_receipt, replayed.messages)
        return receipts

    def replay_all(
        self, queue: str, *, group: str | None = None, partition: str | None = None
    ) -> int:
        """Send back every dead letter there is now, oldest first; return how many."""
        choice = DeadLetterSelection(
            consumer_group=check_label("group", group),
            partition=check_label("partition", partition),
            all=group is None and partition is None,
        )
        replayed = self._replay(queue, choice)
        return replayed.replayed

    def delete(self, queue: str, numbers: Sequence[int]) -> None:
        """Throw dead letters away, some hundred at a time: if one of these does not exist, none
        of them is, and the rest is left."""
        path = paths.dead_letters(check_name("queue", queue))
        for some in steps(numbers):
            self._connection.send(delete(path, numbers=",".join(map(str, some))))

    def delete_all(
        self, queue: str, *, group: str | None = None, partition: str | None = None
    ) -> int:
        """Throw away every dead letter there is now; return how many."""
        request = delete(
            paths.dead_letters(check_name("queue", queue)),
            consumerGroup=check_label("group", group),
            partition=check_label("partition", partition),
            all=group is None and partition is None,
        )
        answer = self._connection.send(request)
        return answer.decode(DeletedDeadLetters).deleted

    def list(
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
        """Newest first. ``before`` is the number of the last one of the page before."""
        found = self._page(queue, group, partition, from_, to, before, limit)
        return [to_failed_message(letter) for letter in found.messages]

    def _page(
        self,
        queue: str,
        group: str | None,
        partition: str | None,
        from_: datetime | None,
        to: datetime | None,
        before: int | None,
        limit: int,
    ) -> DeadLetterPage:
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
        answer = self._connection.send(request)
        return answer.decode(DeadLetterPage)

    def _replay(self, queue: str, choice: DeadLetterSelection) -> Replayed:
        request = post(paths.replay(check_name("queue", queue)), choice, repeatable=False)
        answer = self._connection.send(request)
        return answer.decode(Replayed)
