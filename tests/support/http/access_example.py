"""What the calls of the access matrix are about, and what is to be known of each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from uuid import UUID

from msgspec import to_builtins

from skep import Broker, Draft
from skep.core.journal.journal import Selection
from skep.http.auth.principal import Permission
from skep.http.routing import Route
from skep.model.address import partition_id
from skep.model.sink import StagedRows
from tests.support.broker_builders import a_run, lease_of, pop
from tests.support.http.token_signing import ALICE

TRACE_ID = UUID(int=7, version=4)
Permissions: TypeAlias = frozenset[Permission]
NOTHING: Permissions = frozenset()
STATUS = frozenset({Permission.STATUS})
READ = frozenset({Permission.READ})
PUSH = frozenset({Permission.PUSH})
POP = frozenset({Permission.POP})
OPERATE = frozenset({Permission.OPERATE})
ADMIN = frozenset({Permission.ADMIN})


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueExample:
    """A queue of the namespace ``shop``, whose task has its name, with something to be done.

    Of two messages the group ``billing`` has leased the first, and ``late`` has given the second
    up and read nothing else; every other group is new to the queue. There is a trace event with
    the names ``checkout`` and the queue's, and there was a message that ``billing`` has done
    and that was cleared. A pipeline whose id is the queue's name reads it, and an app with its name
    and ``-done`` has committed a version.
    """

    queue: str
    partition_id: str
    lease_id: str
    transaction_id: str
    given_up: str
    """The transaction id of the second message."""
    letter: int
    query_id: str
    """Of a stream query that reads the queue, and whose name is the queue's."""
    position: dict[str, Any]
    """The end of its journal, where a reader is whose name is the queue's."""

    @property
    def staged(self) -> dict[str, Any]:
        """A row that an app with the name of the queue has staged for it."""
        stages = [{"stage": "s", "chunks": 1, "rows": 1}]
        return {"app": self.queue, "version": 1, "stages": stages}


async def make_queue_example(broker: Broker, queue: str) -> QueueExample:
    await broker.queues.configure(queue, namespace="shop", task=queue)
    ids = f"{queue}-1", f"{queue}-2"
    await broker.push(queue, [Draft(b"1", transaction_id=ids[0], trace_id=TRACE_ID)])
    delivery = await pop(broker, queue, group="billing", lease_seconds=60, principal=ALICE)
    first = delivery.messages[0]
    query, _ = await broker.stream_queries.register(queue, source_queue=queue, config_hash="1")
    await broker.stream_queries.cycle(query.id, first.partition_number, state=[("total", b"1")])
    await broker.traces.record(first.id, "info", b"1", names=["checkout", queue])
    assert await broker.pop(queue, partition="none", group="late") is None
    (second,) = await broker.push(queue, [Draft(b"2", transaction_id=ids[1])])
    await broker.messages.give_up(second.id, group="late")
    await broker.push(queue, [Draft(b"3", "cleared")])
    await broker.ack(await pop(broker, queue, group="billing", partition="cleared"))
    await broker.queues.clear(queue, partition="cleared")
    await broker.sink.stage(queue, 1, "s", 0, StagedRows(payloads=[b"4"]), queue=queue)
    await broker.sink.commit(f"{queue}-done", 1, [])
    (letter,) = await broker.dead_letters.list(queue)
    everything = Selection(queues=(queue,))
    position, _ = await broker.reader_groups.begin(queue, everything, "latest", lambda name: True)
    await broker.pipelines.put(a_run(queue, queues=(queue,)))
    return QueueExample(
        queue=queue,
        partition_id=str(partition_id(first.partition_number)),
        lease_id=lease_of(delivery),
        transaction_id=ids[0],
        given_up=ids[1],
        letter=letter.number,
        query_id=str(query.id),
        position=to_builtins(position, str_keys=True),
    )


Body: TypeAlias = Callable[[QueueExample], Any]
About: TypeAlias = Literal["one queue", "every queue", "what he sees", "no queue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """``about`` is what a call means for somebody who may see some queues only:

    * one queue: he may call it for his own;
    * every queue: it touches more than is named, so he may not call it at all;
    * what he sees: he may call it; it touches and shows his own and none of the others;
    * no queue: he may call it, and it does the same for everybody.

    ``needs`` are the permissions without which a call is refused, said here once more and not
    taken from the route: it may have forgotten them. ``path`` is left out if it is the route's;
    ``writes`` says whether it changes what is stored.
    """

    needs: Permissions
    path: str | None = None
    body: Body | None = None
    content: bytes | None = None
    """A body that is not JSON."""
    writes: bool = True
    about: About = "one queue"
    status: int | None = None
    """What it answers here to who may, if that is not the route's."""

    def status_of(self, route: Route) -> int:
        return route.status if self.status is None else self.status

    def path_of(self, route: Route, place: QueueExample) -> str:
        return route.path if self.path is None else self.path.format(place=place)


Calls: TypeAlias = dict[tuple[str, str], Example]
"""By the method and the path of the route."""
