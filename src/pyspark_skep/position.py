"""Positions in the journal: their canonical form, and the messages between two of them."""

from dataclasses import dataclass
from typing import Any

from pyspark_skep.errors import DataLost

JournalPosition = dict[str, Any]
"""The next position of every lane of every queue, as JSON: what Spark keeps in a checkpoint."""


def check_position(value: Any) -> JournalPosition:
    """Return a position in canonical order; raise ``ValueError`` if the value is not one."""
    try:
        queues = {
            str(name): {
                "lanes": {str(int(lane)): int(n) for lane, n in sorted(queue["lanes"].items())},
                "number": int(queue["number"]),
            }
            for name, queue in sorted(value["queues"].items())
        }
        return {"queues": queues, "store": str(value["store"]), "v": int(value["v"])}
    except (AttributeError, KeyError, TypeError):
        raise ValueError("value is not a position") from None


@dataclass(frozen=True)
class LaneSlice:
    """Messages of one lane of a queue: ``[start, end)``."""

    queue: str
    number: int
    lane: int
    start: int
    end: int


def slices_between(
    start: JournalPosition, end: JournalPosition, *, strict: bool
) -> list[LaneSlice]:
    """Return the messages between two positions, always in the same order.

    A queue that ``start`` does not contain is read from its beginning. So is a queue that was
    deleted and created again, unless ``strict`` is set: then it raises ``DataLost``.
    """
    slices = []
    for name, queue in sorted(end["queues"].items()):
        start_lanes = _lanes_of(start, end, name, strict=strict)
        for lane, head in sorted((int(lane), head) for lane, head in queue["lanes"].items()):
            first = start_lanes.get(str(lane), 0)
            if first < head:
                slices.append(LaneSlice(name, queue["number"], lane, first, head))
    return slices


def _lanes_of(
    start: JournalPosition, end: JournalPosition, name: str, *, strict: bool
) -> dict[str, int]:
    queue = start["queues"].get(name)
    if queue is None:
        return {}
    if start["store"] == end["store"] and queue["number"] == end["queues"][name]["number"]:
        return dict(queue["lanes"])
    if strict:
        raise DataLost(
            f"queue {name!r} is not the queue that was read before: it was deleted and created "
            "again, or the server has another store. Start with a new checkpoint, or set "
            "failOnDataLoss=false to read the queue from its beginning"
        )
    return {}


def rows_between(start: JournalPosition, end: JournalPosition) -> int:
    return sum(part.end - part.start for part in slices_between(start, end, strict=False))


def without_mismatches(start: JournalPosition, heads: JournalPosition) -> JournalPosition:
    """Return ``start`` without the queues that were deleted or created again since."""
    same_store = start["store"] == heads["store"]
    queues = {
        name: queue
        for name, queue in start["queues"].items()
        if same_store and queue["number"] == heads["queues"].get(name, queue)["number"]
    }
    return {"queues": queues, "store": heads["store"], "v": heads["v"]}


def clamp(
    end: JournalPosition, *, start: JournalPosition, target: JournalPosition
) -> JournalPosition:
    """Return ``end``, but not beyond ``target`` and not before ``start``."""
    queues = {}
    for name, queue in end["queues"].items():
        limits = target["queues"].get(name, {"number": None, "lanes": {}})
        if limits["number"] == queue["number"]:
            start_lanes = _lanes_of(start, end, name, strict=False)
            lanes = {
                lane: max(start_lanes.get(lane, 0), min(head, limits["lanes"].get(lane, 0)))
                for lane, head in queue["lanes"].items()
            }
            queues[name] = {"lanes": lanes, "number": queue["number"]}
        elif name in start["queues"]:
            queues[name] = start["queues"][name]
    return {"queues": queues, "store": end["store"], "v": end["v"]}
