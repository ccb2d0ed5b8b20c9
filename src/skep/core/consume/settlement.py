"""Acks and extensions as parts of a change."""

from collections.abc import Collection, Iterable, Sequence
from random import Random

from msgspec.structs import replace

from skep.core.produce.push import PreparedPush
from skep.core.rules import ack, lease as leases
from skep.core.state.catalogue import Catalogue
from skep.core.state.lease_table import LeasedPartition
from skep.core.state.queue_state import GroupState, Link, PartitionState
from skep.errors import Invalid, LeaseLost
from skep.model.address import MAX_OFFSET, MAX_PARTITION
from skep.model.change import (
    Capacity,
    Change,
    EntryUpdate,
    EntryVersion,
    GiveUp,
    IdempotencyKey,
    QueueVersion,
)
from skep.model.consumer import ConsumerState, Failure
from skep.model.name import Instant, LeaseId, check_count, check_text, to_datetime
from skep.model.operation import STATUSES, Settlement, Verdict
from skep.store.protocol import Store


class ChangeBuilder:
    """A change in the making: what several operations do to the same state adds up."""

    def __init__(self) -> None:
        self.pushes: list[PreparedPush] = []
        self.dead_letters: list[GiveUp] = []
        self.entries: list[EntryUpdate] = []
        self._states: dict[tuple[GroupState, PartitionState], ConsumerState] = {}
        self._leases: dict[tuple[GroupState, PartitionState], LeaseId] = {}
        self._links: list[tuple[GroupState, PartitionState, Link]] = []

    def consumer(self, group: GroupState, partition: PartitionState) -> ConsumerState:
        """The state as this plan leaves it so far, on top of what is on its way to the store."""
        return self._states.get((group, partition)) or group.latest(partition)

    def touches(self, group: GroupState, partition: PartitionState) -> bool:
        return (group, partition) in self._states

    def put(self, held: LeasedPartition, state: ConsumerState, lease: LeaseId) -> None:
        """Replace the state of what a lease holds."""
        self._states[held] = state
        self._leases[held] = lease

    def give_up(self, group: GroupState, partition: PartitionState, dead: list[Failure]) -> None:
        if not dead:
            return
        attempts = group.latest(partition).attempt
        self.dead_letters += (
            group.give_up(partition, failure.offset, error=failure.error, attempts=attempts)
            for failure in dead
        )

    def submit(
        self, key: IdempotencyKey | None = None, based_on: tuple[EntryVersion, ...] = ()
    ) -> Change:
        """The change, about to go to the store; the next plan builds on its states."""
        updates = []
        queues: set[QueueVersion] = set()
        for held, state in self._states.items():
            group, partition = held
            update = group.update(
                partition,
                state,
                expected=group.latest(partition).revision,
                lease=self._leases[held],
            )
            updates.append(update)
            self._links.append((group, partition, group.submit(partition, update.state)))
            queues.update(group.queue.versions)
        for push in self.pushes:
            queues.update(push.queues)
        return Change(
            appends=tuple([append for push in self.pushes for append in push.appends]),
            consumers=tuple(updates),
            dead_letters=tuple(self.dead_letters),
            entries=tuple(self.entries),
            key=key,
            queues=tuple(queues),
            based_on=based_on,
            capacity=self._capacity() if self.pushes else (),
        )

    def _capacity(self) -> tuple[Capacity, ...]:
        """What the pushes need together, by queue."""
        needed: dict[int, Capacity] = {}
        for push in self.pushes:
            for each in push.capacity:
                known = needed.get(each.queue, each._replace(messages=0))
                messages, total = known.messages + each.messages, min(known.total, each.total)
                needed[each.queue] = Capacity(each.queue, messages, total)
        return tuple(needed.values())

    def settle(self, applied: bool) -> None:
        """The change was applied, or it was refused, with all that is built on it."""
        for group, partition, link in self._links:
            group.settle(partition, link, applied=applied)


class Settler:
    def __init__(self, store: Store, catalogue: Catalogue, random: Random) -> None:
        self._store = store
        self._clock = store.clock
        self._catalogue = catalogue
        self._random = random

    def settle(
        self, plan: ChangeBuilder, lease_id: LeaseId, verdicts: Sequence[Verdict] | None
    ) -> Settlement:
        """Settle messages of a lease; all that it still holds as completed if none are named.

        What the lease has settled before, or is about to, stays as it was settled then.
        """
        by_partition = None if verdicts is None else _sort(verdicts)
        held = self._held(plan, lease_id, by_partition)
        now, luck = self._clock.now(), self._random.random()
        settled: list[ack.Settled] = []
        for group, partition in held:
            consumer = plan.consumer(group, partition)
            if by_partition is None:
                done = ack.complete_all(consumer, now=now)
            else:
                options = group.queue.config.options
                some = by_partition[partition.number]
                try:
                    done = ack.settle(consumer, some.values(), options=options, now=now, luck=luck)
                except Invalid as error:
                    raise error.moved(_places(some)) from None
            if done.state.cursor >= partition.end and not self._store.has_peers:
                # Whatever comes next is younger than this instant. Another server may have pushed
                # something that is not known here yet.
                done.state = replace(done.state, oldest_at=now)
            # What is no longer kept cannot be looked at, or delivered again.
            done.dead = [failure for failure in done.dead if failure.offset >= partition.start]
            plan.put((group, partition), done.state, lease_id)
            plan.give_up(group, partition, done.dead)
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
            released=not self._alive(plan, lease_id),
        )

    def is_known(self, lease_id: LeaseId) -> bool:
        """Whether it is certain here what a lease holds.

        Other servers may have settled parts of a lease on several partitions. One that was
        granted before the start may hold partitions that are not loaded yet.
        """
        held, is_own = (
            self._catalogue.lease_table.of(lease_id),
            self._catalogue.lease_table.is_own(lease_id),
        )
        if not is_own and not (held and self._catalogue.has_states_of(held[0][0].name)):
            return self._catalogue.loaded and not self._store.has_peers
        return not self._store.has_peers or len(held) <= 1

    def is_loaded(self, lease_id: LeaseId) -> bool:
        """Whether nothing that a lease holds is still to be loaded."""
        return self._catalogue.loaded or lease_id in self._catalogue.lease_table.announced

    def _held(
        self, plan: ChangeBuilder, lease_id: LeaseId, only: Collection[int] | None
    ) -> list[LeasedPartition]:
        """What a lease holds when the acks on their way are done, all or ``only`` a part of it."""
        places = self._catalogue.lease_table.live(lease_id, only)
        alive = self._alive(plan, lease_id)
        if not alive:
            raise LeaseLost(lease_id)
        return [place for place in places if place in alive]

    def _alive(self, plan: ChangeBuilder, lease_id: LeaseId) -> set[LeasedPartition]:
        now = self._clock.now()
        return {
            place
            for place in self._catalogue.lease_table.of(lease_id)
            if leases.is_live(plan.consumer(*place), lease_id, now)
        }

    def extend(self, plan: ChangeBuilder, lease_id: LeaseId, seconds: int) -> Instant:
        """Keep a lease for at least ``seconds`` from now; return when it ends.

        What the same plan has settled before is not held any more, and is left alone. A lease
        that an ack on its way to the store has ended is lost.
        """
        now = self._clock.now()
        ends: list[Instant] = []
        held = self._catalogue.lease_table.live(lease_id)
        for group, partition in held:
            state = leases.extend(plan.consumer(group, partition), seconds=seconds, now=now)
            if state.lease is not None:
                plan.put((group, partition), state, lease_id)
                ends.append(state.lease.expires_at)
        if not ends and not any(plan.touches(*place) for place in held):
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


def _places(some: Iterable[int]) -> dict[str, str]:
    """Where each of some verdicts is among all."""
    return {f"verdicts[{here}]": f"verdicts[{index}]" for here, index in enumerate(some)}
