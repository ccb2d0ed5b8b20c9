"""How the messages of a batch are divided among Spark's tasks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql.datasource import InputPartition

from pyspark_skep.options import Options
from pyspark_skep.position import LaneSlice

SPLIT_ROWS = 250_000
MAXIMUM_SPLITS = 64


@dataclass
class Split(InputPartition):
    """The messages that one task reads.

    With a share ``(index, count)`` the task reads only those partitions of its slices that the
    server assigns to ``index``.
    """

    slices: tuple[LaneSlice, ...] = ()
    share: tuple[int, int] | None = None


def plan_splits(slices: Sequence[LaneSlice], options: Options) -> list[Split]:
    """Return one split per task: always the same ones for the same slices and options."""
    rows = sum(part.end - part.start for part in slices)
    if not rows:
        return []
    count = count_splits(rows, options)
    if not options.preserve_order:
        return [Split(tuple(parts)) for parts in pack(slices, -(-rows // count))]
    return [Split(tuple(slices), (index, count) if count > 1 else None) for index in range(count)]


def count_splits(rows: int, options: Options) -> int:
    """Return the number of tasks; a task costs tens of milliseconds, so a small batch has one."""
    count = min(-(-rows // SPLIT_ROWS), MAXIMUM_SPLITS)
    if options.max_records_per_partition is not None:
        count = max(count, -(-rows // options.max_records_per_partition))
    return min(rows, max(count, options.min_partitions or 1))


def pack(slices: Iterable[LaneSlice], size: int) -> list[list[LaneSlice]]:
    """Divide slices, in their order, into lists of ``size`` messages; the last may have fewer."""
    packed: list[list[LaneSlice]] = [[]]
    room = size
    for part in slices:
        start = part.start
        while start < part.end:
            if not room:
                packed.append([])
                room = size
            end = min(part.end, start + room)
            packed[-1].append(replace(part, start=start, end=end))
            room -= end - start
            start = end
    return packed
