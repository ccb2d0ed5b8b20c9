"""Several operations on the same states add up to one change."""

from skep.core.produce.push_preparation import PreparedPush
from skep.core.state.lease_table import LeasedPartition
from skep.core.state.queue_state import GroupState, Link, PartitionState
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
from skep.model.name import LeaseId


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
