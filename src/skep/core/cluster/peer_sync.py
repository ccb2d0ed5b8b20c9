"""Applies what other servers of the same store committed.

The registry mirrors this server's own commits. Commits of peers arrive as events, numbered without
gaps for each lane, so that none is missed. They are polled several times a second, and at once when
a commit is refused because the stored state is not the known one. An event that is applied twice or
late does no harm: offsets only grow, and states have versions.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, ParamSpec, TypeVar

from skep.core.aio import PeriodicTask, log_failure
from skep.core.cluster.state_reloader import StateReloader
from skep.core.state.lease_table import LeaseTable
from skep.core.state.registry import Registry
from skep.core.state.segment_cache import SegmentCache
from skep.core.state.state_loader import StateLoader
from skep.model.change import Change, Commit, Gone, QueueVersion, Reconfigured, Stale
from skep.model.consumer import Revision
from skep.model.name import SECOND, Instant
from skep.model.peer_event import (
    CommitEffects,
    ConsumerUpdated,
    PartitionAppended,
    PartitionTruncated,
)
from skep.store.protocol import PeerStore

_SET_BACK = SECOND
"""Less is how exactly a clock far away can be known."""

_log = logging.getLogger("skep.broker")

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")


class PeerSync:
    """``forget_dead_letters`` is called with queues whose dead letters another server changed."""

    def __init__(
        self,
        store: PeerStore,
        registry: Registry,
        loader: StateLoader,
        lease_table: LeaseTable,
        cache: SegmentCache,
        reloader: StateReloader,
        forget_dead_letters: Callable[[int], None],
    ) -> None:
        self._forget_dead_letters = forget_dead_letters
        self._store = store
        self._registry = registry
        self._loader = loader
        self._lease_table = lease_table
        self._cache = cache
        self._reloader = reloader
        self._timeline = ""
        self._loading = loader.loading
        self._next: asyncio.Task[None] | None = None
        self._polling = PeriodicTask(self._keep_up, "could not read peer events, retrying", _log)
        self._spaces: dict[str, Callable[[], Awaitable[None]]] = {}
        self._latest: Instant = 0
        """The latest time that was read from the clock of the store."""

    def when_changed(self, space: str, call: Callable[[], Awaitable[None]]) -> None:
        """Let ``call`` look at the entries of a space again when another server changed some."""
        self._spaces[space] = call

    async def begin(self) -> None:
        """From here on events count: to be called before anything is loaded."""
        await self._store.start_peer_events()
        self._timeline = self._store.timeline

    def start(self, interval: float) -> None:
        if self._store.shared:
            self._latest = self._store.clock.now()
            self._polling.start(interval)

    async def stop(self) -> None:
        """Stop polling; requests in progress are completed."""
        await self._polling.stop()
        if self._next:
            await asyncio.wait([self._next])
        # One that has begun is not the next any more.
        async with self._loading:
            pass

    async def complete(self, queue: str | None = None) -> None:
        """Return when all is known that was committed before the call, of every partition.

        Of those of one queue, if it is named: it does not wait for the others to be loaded.
        """
        while True:
            await self._loader.finish_loading(queue)
            await self.catch_up()
            # After a failover everything is loaded again.
            if self._loader.is_loaded(queue):
                return

    async def catch_up(self) -> None:
        """Return when all is known that was committed before the call, of what is loaded."""
        if not self._store.has_peers:
            return
        await self._poll()

    async def _poll(self) -> None:
        # One that has begun to look may have looked too early.
        if self._next is None:
            self._next = asyncio.create_task(self._look())
        await asyncio.shield(self._next)

    async def find(self, look: Callable[[], T]) -> T:
        """What ``look`` finds. Before it is said that there is nothing, every commit counts."""
        found = look()
        if not found and self._store.has_peers:
            await self.catch_up()
            found = look()
        if not found and not self._loader.loaded:
            await self.complete()
            found = look()
        return found

    async def explain(self, changes: Sequence[Change], commit: Commit) -> None:
        """Make sure that what was refused because of another server can be decided again.

        If no server published what stands in the way, an operator did it with SQL: then all that
        the change is about is read again.
        """
        refused = [
            (change, outcome)
            for change, outcome in zip(changes, commit.outcomes, strict=True)
            if isinstance(outcome, Gone | Stale | Reconfigured)
        ]
        if not refused:
            return
        try:
            await self._poll()
            await self._reload_spaces(refused)
            async with self._loading:
                for queue in {q for each in refused for q in self._unannounced(*each)}:
                    await self._reloader.reload(queue)
        except Exception as error:
            # What was committed stays committed; a refused change is refused again.
            log_failure(_log, "could not read why a change was rejected", error)

    async def _reload_spaces(self, refused: Sequence[tuple[Change, object]]) -> None:
        """Look again at entries that refused changes were decided on: a look may have failed."""
        spaces = {at.space for change, _ in refused for at in change.based_on}
        for space in spaces.intersection(self._spaces):
            await self._spaces[space]()

    async def look_at(self, queue: int) -> None:
        """Read the configuration and the groups of a queue, announced by an event or not."""
        async with self._loading:
            await self._reloader.look_at(queue)

    def _unannounced(self, change: Change, outcome: object) -> set[int]:
        if isinstance(outcome, Gone):
            touched = {each.queue for each in change.appends} | {u.queue for u in change.consumers}
            return touched | {at.queue for at in change.queues}
        if isinstance(outcome, Reconfigured):
            return {at.queue for at in change.queues if self._queue_version(at.queue) == at}
        return {
            update.queue
            for update in change.consumers
            if self._revision(update.partition, update.group) == update.expected
        }

    def _revision(self, partition: int, group: str) -> Revision | None:
        known = self._registry.partitions.get(partition)
        state = known and known.queue.groups.get(group)
        return state.consumer(known).revision if known and state else None

    def _queue_version(self, queue: int) -> QueueVersion | None:
        known = self._registry.by_number.get(queue)
        return known.versions[0] if known else None

    async def _keep_up(self) -> None:
        await self._check_clock()
        await self._poll()

    async def _check_clock(self) -> None:
        """The clock of a shared store may be set back by its operator."""
        now = self._store.clock.now()
        if now < self._latest - _SET_BACK:
            _log.warning("store clock was set back, leases are counted from now")
            await self._loader.bound()
            self._latest = now
        self._latest = max(self._latest, now)

    async def _reload_all(self, timeline: str) -> None:
        """Nothing that was known counts: not even versions, which may have been given again."""
        _log.warning("PostgreSQL failover detected, reloading all state")
        await self._store.start_peer_events()
        await self._loader.reload()
        await self._store.accept_timeline(timeline)
        self._timeline = timeline

    async def _look(self) -> None:
        async with self._loading:
            self._next = None
            if self._store.timeline != self._timeline:
                await self._reload_all(self._store.timeline)
            events = await self._store.peer_events()
            if events is None:
                await self._start_over()
                return
            await self._apply_all([event.effects for event in events])
            self._store.mark_applied(events)
            for queue in list(self._loader.outdated):
                await self._reloader.reload(queue)
                self._loader.outdated.discard(queue)

    async def _start_over(self) -> None:
        _log.warning("missed peer events, reloading all queues")
        await self._store.start_peer_events()
        await self._reloader.reload_all()
        # Deletions of single messages and changes of dead letters are among what was missed.
        self._cache.clear()
        for queue in list(self._registry.by_number):
            self._forget_dead_letters(queue)
        for call in self._spaces.values():
            await call()

    async def _apply_all(self, commits: list[CommitEffects]) -> None:
        """Creations first: an event of one lane may be about what another lane created."""
        for queue in {number for each in commits for number in each.queues}:
            await self._reloader.look_at(queue)
        for partition in [partition for each in commits for partition in each.created]:
            await self._reloader.add(partition)
        await self._load_leased(commits)
        for each in commits:
            await self._apply(each)
        for space in {space for each in commits for space in each.spaces}:
            if space in self._spaces:
                await self._spaces[space]()

    async def _load_leased(self, commits: list[CommitEffects]) -> None:
        """Load the partitions that others have leased, so that their leases are known here.

        The rest of a queue that is being loaded follows page by page.
        """
        leased: dict[int, set[int]] = {}
        for moved in (moved for each in commits for moved in each.consumers if moved.state.lease):
            leased.setdefault(moved.queue, set()).add(moved.partition)
        for number, partitions in leased.items():
            queue = self._registry.by_number.get(number)
            if queue is not None and not queue.loaded:
                await self._loader.load_unknown(queue, partitions)

    async def _apply(self, effects: CommitEffects) -> None:
        for grown in effects.appended:
            self._grow(grown)
        for cut in effects.truncated:
            self._cut(cut)
        for moved in effects.consumers:
            await self._move(moved)
        for partition in effects.redacted:
            self._cache.drop(partition)
        for queue in effects.dead_letters:
            self._forget_dead_letters(queue)

    def _grow(self, grown: PartitionAppended) -> None:
        partition = self._registry.partitions.get(grown.partition)
        if partition is None:
            self._loader.miss(grown.partition)
        elif grown.end > partition.end:
            partition.grow(grown.end, grown.newest_at, start=grown.start)
            self._registry.refresh_grown(partition)

    def _cut(self, cut: PartitionTruncated) -> None:
        partition = self._registry.partitions.get(cut.partition)
        if partition is None:
            self._loader.miss(cut.partition)
        elif cut.start > partition.start:
            partition.truncate(cut.start, cut.first_at)
            self._registry.refresh_partition(partition)

    async def _move(self, moved: ConsumerUpdated) -> None:
        partition = self._registry.partitions.get(moved.partition)
        if partition is None:
            self._loader.miss(moved.partition)
            return
        group = partition.queue.groups.get(moved.group)
        if group is None or group.subscription.id != moved.subscription:
            await self._reloader.look_at(partition.queue.config.number)
            group = partition.queue.groups.get(moved.group)
        if group is not None and group.subscription.id == moved.subscription:
            self._registry.apply_consumer(group, partition, moved.state, own=moved.own)
            if moved.state.lease and not moved.own and not self._loader.loaded:
                self._lease_table.announced.add(moved.state.lease.id)


def current(
    method: Callable[Concatenate[S, P], Awaitable[T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Let a method act on all that any server committed before it was called.

    For what reads or relies on ends, backlogs, configurations, or that something does not exist.
    Its class must have ``_peer_sync``. If its first parameter is ``queue``, it concerns no other.
    """
    is_of_queue = list(signature(method).parameters)[1:2] == ["queue"]

    def queue_of(args: Sequence[object], kwargs: Mapping[str, object]) -> str | None:
        queue = args[0] if args else kwargs.get("queue")
        return queue if is_of_queue and isinstance(queue, str) else None

    @wraps(method)
    async def whole(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        peer_sync: PeerSync = self._peer_sync  # type: ignore[attr-defined]
        await peer_sync.complete(queue_of(args, kwargs))
        return await method(self, *args, **kwargs)

    return whole
