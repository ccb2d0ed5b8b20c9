"""Lanes become one sequence in which partitions keep their order, whatever was committed where."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import pytest

from skep.core.journal.lane_merge import FIRST_PAGE, Merge
from skep.model.journal import Lanes, Range, SegmentPlace
from skep.store.memory import MemoryStore

QUEUE = 1


class Committed(NamedTuple):
    partition: int
    start: int
    place: SegmentPlace


class Log(MemoryStore):
    """Segments of many lanes in the order of their commits, of which only places are read."""

    def __init__(self, random: Random, lanes: int, partitions: int, commits: int) -> None:
        super().__init__()
        self.segments: list[Committed] = []
        self.ends: Lanes = dict.fromkeys(range(lanes), 0)
        last: dict[int, Committed] = {}
        for now in range(commits):
            lane = random.randrange(lanes)
            for partition in random.sample(range(partitions), random.randint(1, partitions)):
                before = last.get(partition)
                last[partition] = self._append(random, lane, partition, now, before)

    def _append(
        self, random: Random, lane: int, partition: int, now: int, before: Committed | None
    ) -> Committed:
        position, count = self.ends[lane], random.randint(1, 5)
        # The clocks of servers differ, but a partition's time never runs back.
        moment = max(now + random.randint(-20, 20), before.place.created_at if before else 0)
        made = Committed(
            partition,
            before.start + _length(before) if before else 0,
            SegmentPlace(
                stands=Range(lane, position, position + count),
                size=count,
                created_at=moment,
                before=before and before.place.stands,
            ),
        )
        self.ends[lane] += count
        self.segments.append(made)
        return made

    def remove(self, random: Random) -> None:
        """Let retention remove the beginnings of some partitions."""
        starts = {partition: random.randint(0, 40) for partition in random.sample(range(20), 5)}
        kept = [each for each in self.segments if each.start >= starts.get(each.partition, 0)]
        there = {each.place.stands for each in kept}
        self.segments = [
            each
            if each.place.before in there
            else each._replace(
                place=SegmentPlace(
                    stands=each.place.stands,
                    size=each.place.size,
                    created_at=each.place.created_at,
                    before=None,
                )
            )
            for each in kept
        ]

    def lanes(self, count: int) -> Lanes:
        """How far each lane was when so many of the segments were there."""
        found = dict.fromkeys(self.ends, 0)
        for each in self.segments[:count]:
            found[each.place.stands.lane] = each.place.stands.end
        return found

    async def read_places(
        self, queue: int, lane: int, position: int, *, limit: int
    ) -> list[SegmentPlace]:
        found = [each.place for each in self.segments if each.place.stands.lane == lane]
        return [place for place in found if place.stands.end > position][:limit]


def _length(segment: Committed) -> int:
    return segment.place.stands.end - segment.place.stands.start


def merged(log: Log, ranges: Sequence[Range]) -> list[Committed]:
    by_place = {each.place.stands: each for each in log.segments}

    async def all_places() -> list[SegmentPlace]:
        return [place async for place in Merge(log, QUEUE, ranges).places()]

    return [by_place[place.stands] for place in asyncio.run(all_places())]


def in_order(found: Sequence[Committed]) -> bool:
    by_partition: dict[int, list[int]] = {}
    for each in found:
        by_partition.setdefault(each.partition, []).append(each.start)
    return all(starts == sorted(starts) for starts in by_partition.values())


def within(log: Log, ranges: Sequence[Range]) -> set[Range]:
    asked = {each.lane: each for each in ranges}
    return {
        place.stands
        for _, _, place in log.segments
        if place.stands.start < asked[place.stands.lane].end
        and place.stands.end > asked[place.stands.lane].start
    }


@pytest.mark.parametrize("seed", range(60))
def test_partitions_keep_their_order_and_nothing_is_left_out(seed: int) -> None:
    random = Random(seed)
    log = Log(random, random.randint(1, 6), random.randint(1, 20), random.randint(0, 120))
    if seed % 3 == 0:
        log.remove(random)
    start, end = sorted(random.randint(0, len(log.segments)) for _ in range(2))
    begun, ended = log.lanes(start), log.lanes(end if seed % 2 else len(log.segments))
    ranges = [Range(lane, begun[lane], ended[lane]) for lane in log.ends]

    found = merged(log, ranges)

    assert in_order(found)
    assert len(found) == len({each.place.stands for each in found})
    assert {each.place.stands for each in found} == within(log, ranges)


@pytest.mark.parametrize("seed", range(20))
def test_what_comes_first_has_all_that_its_partitions_have_before_it(seed: int) -> None:
    random = Random(seed)
    log = Log(random, 4, 10, 100)
    found = merged(log, [Range(lane, 0, end) for lane, end in log.ends.items()])

    taken = set[Range]()
    for each in found[: random.randint(0, len(found))]:
        assert each.place.before is None or each.place.before in taken
        taken.add(each.place.stands)


def test_a_lane_is_read_page_by_page() -> None:
    log = Log(Random(1), 2, 1, 9 * FIRST_PAGE)

    found = merged(log, [Range(lane, 0, end) for lane, end in log.ends.items()])

    assert [each.start for each in found] == sorted(each.start for each in log.segments)
    assert len(found) == 9 * FIRST_PAGE
