"""Short words for how long messages took."""

from collections.abc import Mapping

from skep import Broker
from skep.model.latency import Sketch, bucket_of
from skep.model.name import QUEUE_MODE, SECOND
from skep.testing.clock import NOON

MINUTE = 60 * SECOND
ALWAYS = 1 << 60


def took(messages: Mapping[float, int]) -> Sketch:
    """The sketch of so many messages for each number of seconds."""
    return {bucket_of(round(seconds * SECOND)): count for seconds, count in messages.items()}


async def latencies(
    queue: Broker, name: str = "orders", group: str = QUEUE_MODE
) -> dict[int, Sketch]:
    """Of a group in a queue, by minutes since noon."""
    found, _ = await queue.insight.latencies.between(
        lambda each: each == name, 0, ALWAYS, limit=ALWAYS
    )
    rows = [row for row in found if row.group == group]
    by_minute = {(row.begins_at - NOON) // MINUTE: row.sketch for row in rows}
    assert len(by_minute) == len(rows)
    return by_minute
