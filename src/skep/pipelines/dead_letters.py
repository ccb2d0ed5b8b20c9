"""``dead-letters``: classes of errors, and which letters are sent back."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def numbers_of(letters: "DataFrame", most: int = 1000) -> Iterator[tuple[str, list[int]]]:
    """Queues and numbers of dead letters, the oldest of a queue first, so many at a time."""
    queue, numbers = "", list[int]()
    for row in letters.select("queue", "number").orderBy("queue", "number").toLocalIterator():
        if numbers and (row.queue != queue or len(numbers) == most):
            yield queue, numbers
            numbers = []
        queue = row.queue
        numbers.append(row.number)
    if numbers:
        yield queue, numbers
