"""Acks and extensions as parts of a change."""

from collections.abc import Collection, Sequence
from random import Random

from msgspec.structs import replace

from skep.core.consume.change_builder import ChangeBuilder
from skep.core.rules import ack, lease as leases
from skep.core.state.lease_table import LeasedPartition, LeaseTable
from skep.core.state.state_loader import StateLoader
from skep.errors import Invalid, LeaseLost
from skep.model.address import MAX_OFFSET, MAX_PARTITION
from skep.model.name import Instant, LeaseId, check_count, check_text, to_datetime
from skep.model.operation import STATUSES, Settlement, Verdict
from skep.store.protocol import Store


class SettlementBuilder:
    def __init__(
        self, store: Store, loader: StateLoader, lease_table: LeaseTable, random: Random
    ) -> None:
        self._store = store
        self._clock = store.clock
        self._loader = loader
        self._lease_table = lease_table
        self._random = random

    def settle(
        self, builder: ChangeBuilder, lease_id: LeaseId, verdicts: Sequence[Verdict] | None
    ) -> Settlement:
        """Settle messages of a lease; all that it still holds as completed if none are named.

        What the lease has settled before, or is about to, stays as it was settled then.
        """
        by_partition = None if verdicts is None else _sort(verdicts)
        held = self._held(builder, lease_id, by_partition)
        now, jitter = self._clock.now(), self._random.random()
        settled: list[ack.Settled] = []
        for group, partition in held:
            consumer = builder.consumer(group, partition)
            if by_partition is None:
                done = ack.complete_all(consumer, now=now)
            else:
                options = group.queue.config.options
                some = by_partition[partition.number]
                try:
                    done = ack.settle(
                        consumer, some.values(), options=options, now=now, jitter=jitter
                    )
                except Invalid as error:
                    _, here, *rest = error.path
                    raise error.at(("verdicts", list(some)[int(here)], *rest)) from None
            if done.state.cursor >= partition.end and not self._store.has_peers:
                # Whatever comes next is younger than this instant. Another server may have pushed
                # something that is not known here yet.
                done.state = replace(done.state, oldest_at=now)
            # What is no longer kept cannot be looked at, or delivered again.
            done.dead = [failure for failure in done.dead if failure.offset >= partition.start]
            builder.put((group, partition), done.state, lease_id)
            builder.give_up(group, partition, done.dead)
            settled.append(done)
        retries = [done.retry_at for done in settled if done.retry_at is not None]
        return Settlement(
            completed=sum(done.completed for done in settled),
            given_up=tuple(
                (partition.number, failure.offset)
                for (_, partition), done in zip(held, settled, strict=True)
                for failure in done.dead
            ),
            retry_at=to_datetime(min(retries)) if retries else None,
            released=not self._alive(builder, lease_id),
        )

    def is_known(self, lease_id: LeaseId) -> bool:
        """Whether it is certain here what a lease holds.

        Other servers may have settled parts of a lease on several partitions. One that was
        granted before the start may hold partitions that are not loaded yet.
        """
        held, is_own = (
            self._lease_table.partitions_of(lease_id),
            self._lease_table.is_own(lease_id),
        )
        if not is_own and not (held and self._loader.has_states_of(held[0][0].name)):
            return self._loader.loaded and not self._store.has_peers
        return not self._store.has_peers or len(held) <= 1

    def is_loaded(self, lease_id: LeaseId) -> bool:
        """Whether nothing that a lease holds is still to be loaded."""
        return self._loader.loaded or lease_id in self._lease_table.announced

    def _held(
        self, builder: ChangeBuilder, lease_id: LeaseId, only: Collection[int] | None
    ) -> list[LeasedPartition]:
        """What a lease holds when the acks on their way are done, all or ``only`` a part of it."""
        places = self._lease_table.live(lease_id, only)
        alive = self._alive(builder, lease_id)
        if not alive:
            raise LeaseLost(lease_id)
        return [place for place in places if place in alive]

    def _alive(self, builder: ChangeBuilder, lease_id: LeaseId) -> set[LeasedPartition]:
        now = self._clock.now()
        return {
            place
            for place in self._lease_table.partitions_of(lease_id)
            if leases.is_live(builder.consumer(*place), lease_id, now)
        }

    def extend(self, builder: ChangeBuilder, lease_id: LeaseId, seconds: int) -> Instant:
        """Keep a lease for at least ``seconds`` from now; return when it ends.

        What the same builder has settled before is not held any more, and is left alone. A lease
        that an ack on its way to the store has ended is lost.
        """
        now = self._clock.now()
        ends: list[Instant] = []
        held = self._lease_table.live(lease_id)
        for group, partition in held:
            state = leases.extend(builder.consumer(group, partition), seconds=seconds, now=now)
            if state.lease is not None:
                builder.put((group, partition), state, lease_id)
                ends.append(state.lease.expires_at)
        if not ends and not any(builder.touches(*place) for place in held):
            raise LeaseLost(lease_id)
        return min(ends, default=now)


def _check(where: str, verdict: object) -> None:
    if not isinstance(verdict, Verdict):
        raise Invalid(where, f"must be a Verdict, not {type(verdict).__name__}")
    check_count(f"{where}.partition", verdict.partition, most=MAX_PARTITION)
    check_count(f"{where}.offset", verdict.offset, most=MAX_OFFSET)
    check_text(f"{where}.error", verdict.error)
    if check_text(f"{where}.status", verdict.status) not in STATUSES:
        raise Invalid(f"{where}.status", f"{verdict.status!r} is none of {sorted(STATUSES)}")


def _sort(verdicts: Sequence[Verdict]) -> dict[int, dict[int, Verdict]]:
    """The verdicts on each partition, with their places among all."""
    if not isinstance(verdicts, Sequence) or not verdicts:
        raise Invalid("verdicts", "must be a sequence that is not empty")
    by_partition: dict[int, dict[int, Verdict]] = {}
    for index, verdict in enumerate(verdicts):
        _check(f"verdicts[{index}]", verdict)
        by_partition.setdefault(verdict.partition, {})[index] = verdict
    return by_partition
