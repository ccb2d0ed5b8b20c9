"""Bad input is refused by name, and changes nothing.

Every call is tried on a queue in the middle of its life: messages wait, a lease is out, a dead
letter lies there. Afterwards the store holds exactly what it held, and the lease still counts.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import msgspec
import pytest
from _pytest.mark import ParameterSet

from skep import Ack, Broker, Delivery, Draft, Extend, Limits, Push, QueueOptions, Verdict
from skep.errors import (
    GroupNotFound,
    Invalid,
    LeaseLost,
    NotFound,
    PartitionNotFound,
    QueueNotFound,
)
from skep.model.dead_letter import DeadLetterFilter
from skep.store.protocol import Store
from tests.support.broker_builders import drafts, lease_of, make_broker, payloads, pop, pop_all

LIMITS = Limits(payload_bytes=1000, push_messages=10, pop_messages=100, pop_partitions=10, page=100)
MULTI_BYTE = "\N{HIRAGANA LETTER A}"
SURROGATE = "\ud800"
RANDOM = UUID("6f1c2b1e-9a64-4d0f-8a34-0c9d5e7f1a2b")
"""A UUID that is not one of ours."""


class Scene(NamedTuple):
    """A queue in the middle of its life."""

    store: Store
    queue: Broker
    delivery: Delivery
    """Two messages of the partition ``alice``, leased by the group ``billing``."""
    popped: Delivery
    """One message that was acknowledged when it was popped."""
    message: UUID
    letter: int

    def verdict(self, **said: Any) -> Any:
        """A verdict on the first message of the delivery, with something else in it."""
        first = self.delivery.messages[0]
        return msgspec.structs.replace(Verdict(first.partition_number, first.offset), **said)

    def transact(self, *operations: Any, **also: Any) -> Any:
        """A transaction that would make a queue as well."""
        return self.queue.transact([Push("new", drafts(1)), *operations], **also)


Call: TypeAlias = Callable[[Scene, Any], Any]
Calls: TypeAlias = Mapping[str, tuple[str, Call]]
"""What is tried: the field that the refusal must name, and the call that gets the bad input."""

Corpus: TypeAlias = Mapping[str, object]


@pytest.fixture
async def scene(store: Store) -> AsyncIterator[Scene]:
    async with make_broker(store, limits=LIMITS) as queue:
        await queue.queues.configure("orders", namespace="shop", task="sell", retry_limit=0)
        await queue.push("orders", drafts(1, "bob"))
        await queue.fail(await pop(queue, group="billing"))
        popped = await pop(queue, group="audit", auto_ack=True)
        receipts = await queue.push("orders", drafts(3, "alice"))
        (letter,) = await queue.dead_letters.list("orders")
        await queue.traces.record(receipts[0].id, "step", b"{}", names=["checkout"])
        delivery = await pop(queue, group="billing", batch=2)
        yield Scene(store, queue, delivery, popped, receipts[0].id, letter.number)


async def dump(store: Store) -> list[object]:
    """Everything that a store holds."""
    found: list[object] = [await store.queues(), await store.trace_names(limit=100)]
    for queue in await store.queues():
        number = queue.number
        heads = await store.heads(number)
        partitions = sorted(await store.partitions(number), key=lambda p: p.number)
        found += [
            partitions,
            heads,
            sorted(await store.consumers(number), key=lambda c: (c.partition, c.group)),
            sorted(await store.subscriptions(number), key=lambda s: s.group),
            await store.dead_letters(DeadLetterFilter(queue=number), limit=100),
            await store.removals(number, limit=100),
            [
                (segment.partition, segment.start, list(segment.columns.payloads))
                for lane in heads
                for segment in await store.read_journal(number, lane, 0, limit=100)
            ],
            [
                await store.trace_events(partition.number, offset)
                for partition in partitions
                for offset in range(partition.start, partition.end)
            ],
        ]
    return found


async def run(result: Any) -> None:
    """Wait for an answer, and read all of it."""
    if inspect.isawaitable(result):
        result = await result
    if isinstance(result, Iterator):
        list(result)


async def answer(scene: Scene, call: Call, bad: object, field: str) -> str:
    """What became of a call, in a word if it is one of those we expect."""
    before = await dump(scene.store)
    try:
        await run(call(scene, bad))
    except Invalid as error:
        said = "refused" if field in error.field else f"refused for {error.field}"
    except NotFound:
        said = "not found"
    except LeaseLost:
        said = "lease lost"
    except Exception as error:
        said = f"{type(error).__name__}: {error}"[:100]
    else:
        said = "taken"
    return said if await dump(scene.store) == before else f"{said}, and the store has changed"


async def check(scene: Scene, call: Call, field: str, corpus: Corpus, *expected: str) -> None:
    """Try all of the bad input: what happens is expected, and the lease lives on."""
    found = {what: await answer(scene, call, bad, field) for what, bad in corpus.items()}

    assert {what: said for what, said in found.items() if said not in expected} == {}
    assert (await scene.queue.ack(scene.delivery)).completed == 2


def every(calls: Calls) -> list[ParameterSet]:
    return [pytest.param(call, field, id=name) for name, (field, call) in calls.items()]


def without(corpus: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in corpus.items() if name not in names}


# Names.

NOT_TEXT: Corpus = {
    "number": 5,
    "bytes": b"orders",
    "list": ["orders"],
    "bool": True,
    "object": object(),
}
BAD_NAMES: Corpus = {
    "empty": "",
    "256 bytes": "x" * 256,
    "258 bytes": MULTI_BYTE * 86,
    "a megabyte": "x" * 1_000_000,
    "nul": "a\x00b",
    "newline": "a\nb",
    "delete": "\x7f",
    "next line": "a\x85",
    "surrogate": SURROGATE,
    **NOT_TEXT,
}
NAMES_OF_NEW_THINGS: Calls = {
    "push queue": ("queue", lambda s, x: s.queue.push(x, drafts(1))),
    "push partition": (
        "drafts[0].partition",
        lambda s, x: s.queue.push("orders", [Draft(b"", x)]),
    ),
    "push second partition": (
        "drafts[1].partition",
        lambda s, x: s.queue.push("new", [Draft(b"", "a"), Draft(b"", x), Draft(b"", "b")]),
    ),
    "push all partitions": (
        "drafts[0].partition",
        lambda s, x: s.queue.push("new", [Draft(b"", x), Draft(b"", x)]),
    ),
    "transact queue": ("queue", lambda s, x: s.transact(Push(x, drafts(1)))),
    "transact partition": ("partition", lambda s, x: s.transact(Push("orders", [Draft(b"", x)]))),
    "configure queue": ("queue", lambda s, x: s.queue.queues.configure(x)),
    "configure namespace": (
        "namespace",
        lambda s, x: s.queue.queues.configure("orders", namespace=x),
    ),
    "configure task": ("task", lambda s, x: s.queue.queues.configure("orders", task=x)),
    "pop queue": ("queue", lambda s, x: s.queue.pop(x)),
    "pop group": ("group", lambda s, x: s.queue.pop("orders", group=x)),
    "pop partition": ("partition", lambda s, x: s.queue.pop("orders", partition=x)),
    "pop namespace": ("namespace", lambda s, x: s.queue.pop(namespace=x)),
    "pop task": ("task", lambda s, x: s.queue.pop(task=x)),
    "record kind": ("kind", lambda s, x: s.queue.traces.record(s.message, x, b"")),
    "record names": (
        "names",
        lambda s, x: s.queue.traces.record(s.message, "step", b"", names=["good", x]),
    ),
}


@pytest.mark.parametrize(("call", "field"), every(NAMES_OF_NEW_THINGS))
async def test_what_may_not_be_a_name_is_refused_where_it_would_name_something(
    scene: Scene, call: Call, field: str
) -> None:
    await check(scene, call, field, BAD_NAMES, "refused")


LABELS: Calls = {
    "push producer": ("producer", lambda s, x: s.queue.push("orders", drafts(1), producer=x)),
    "transact producer": ("producer", lambda s, x: s.transact(producer=x)),
    "record group": (
        "group",
        lambda s, x: s.queue.traces.record(s.message, "step", b"", group=x),
    ),
    "record worker": (
        "worker",
        lambda s, x: s.queue.traces.record(s.message, "step", b"", worker=x),
    ),
}


@pytest.mark.parametrize(("call", "field"), every(LABELS))
async def test_a_label_that_is_no_short_text_is_refused(
    scene: Scene, call: Call, field: str
) -> None:
    corpus = {**NOT_TEXT, "surrogate": SURROGATE, "a megabyte": "x" * 1_000_000}

    await check(scene, call, field, corpus, "refused")


NAMES_OF_KNOWN_THINGS: Calls = {
    "get queue": ("queue", lambda s, x: s.queue.queues.get(x)),
    "partitions": ("queue", lambda s, x: s.queue.queues.partitions(x)),
    "stats": ("queue", lambda s, x: s.queue.queues.stats(x)),
    "clear": ("queue", lambda s, x: s.queue.queues.clear(x)),
    "clear partition": ("partition", lambda s, x: s.queue.queues.clear("orders", partition=x)),
    "delete queue": ("queue", lambda s, x: s.queue.queues.delete(x)),
    "removals": ("queue", lambda s, x: s.queue.queues.removals(x)),
    "groups": ("queue", lambda s, x: s.queue.groups.list(x)),
    "lag queue": ("queue", lambda s, x: s.queue.groups.lag(x, "billing")),
    "lag group": ("group", lambda s, x: s.queue.groups.lag("orders", x)),
    "seek queue": ("queue", lambda s, x: s.queue.groups.seek(x, "billing", "end")),
    "seek group": ("group", lambda s, x: s.queue.groups.seek("orders", x, "end")),
    "seek partition": (
        "partition",
        lambda s, x: s.queue.groups.seek("orders", "billing", "end", partition=x),
    ),
    "delete group queue": ("queue", lambda s, x: s.queue.groups.delete(x, "billing")),
    "delete group": ("group", lambda s, x: s.queue.groups.delete("orders", x)),
    "find queue": ("queue", lambda s, x: s.queue.messages.find(x, "alice", "t-1")),
    "find partition": ("partition", lambda s, x: s.queue.messages.find("orders", x, "t-1")),
    "list messages": ("queue", lambda s, x: s.queue.messages.list(x)),
    "list messages of partition": (
        "partition",
        lambda s, x: s.queue.messages.list("orders", partition=x),
    ),
    "list letters": ("queue", lambda s, x: s.queue.dead_letters.list(x)),
    "list letters of partition": (
        "partition",
        lambda s, x: s.queue.dead_letters.list("orders", partition=x),
    ),
    "count letters": ("queue", lambda s, x: s.queue.dead_letters.count(x)),
    "get letter": ("queue", lambda s, x: s.queue.dead_letters.get(x, s.letter)),
    "replay": ("queue", lambda s, x: s.queue.dead_letters.replay(x, [s.letter])),
    "replay all": ("queue", lambda s, x: s.queue.dead_letters.replay_all(x)),
    "replay all of partition": (
        "partition",
        lambda s, x: s.queue.dead_letters.replay_all("orders", partition=x),
    ),
    "delete letters": ("queue", lambda s, x: s.queue.dead_letters.delete(x, [s.letter])),
    "delete all letters": ("queue", lambda s, x: s.queue.dead_letters.delete_all(x)),
}


@pytest.mark.parametrize(("call", "field"), every(NAMES_OF_KNOWN_THINGS))
async def test_what_may_not_be_a_name_is_refused_or_not_found_where_it_is_looked_for(
    scene: Scene, call: Call, field: str
) -> None:
    await check(scene, call, field, BAD_NAMES, "refused", "not found")


FILTERS: Calls = {
    "queues by namespace": ("namespace", lambda s, x: s.queue.queues.list(namespace=x)),
    "queues by task": ("task", lambda s, x: s.queue.queues.list(task=x)),
    "letters by group": ("group", lambda s, x: s.queue.dead_letters.list("orders", group=x)),
    "count by group": ("group", lambda s, x: s.queue.dead_letters.count("orders", group=x)),
    "replay by group": ("group", lambda s, x: s.queue.dead_letters.replay_all("orders", group=x)),
    "delete by group": ("group", lambda s, x: s.queue.dead_letters.delete_all("orders", group=x)),
}
TRACE_NAMES: Calls = {
    "events by name": ("name", lambda s, x: s.queue.traces.named(x)),
    "names after": ("after", lambda s, x: s.queue.traces.names(after=x)),
}


@pytest.mark.parametrize(("call", "field"), every(FILTERS))
async def test_a_filter_that_is_no_text_is_refused(scene: Scene, call: Call, field: str) -> None:
    await check(scene, call, field, NOT_TEXT, "refused")


@pytest.mark.parametrize(("call", "field"), every(TRACE_NAMES))
async def test_a_trace_name_that_is_no_text_is_refused(
    scene: Scene, call: Call, field: str
) -> None:
    corpus = {**NOT_TEXT, "surrogate": SURROGATE, "none": None}

    await check(scene, call, field, corpus, "refused")


@pytest.mark.parametrize("name", ["x" * 255, MULTI_BYTE * 85], ids=["ascii", "multi-byte"])
async def test_a_name_of_255_bytes_is_taken_everywhere(scene: Scene, name: str) -> None:
    queue = scene.queue
    await queue.push(name, [Draft(b"a", name)], producer=name)
    await queue.queues.configure(name, namespace=name, task=name)

    delivery = await queue.pop(namespace=name, task=name, group=name)

    assert payloads(delivery) == [b"a"]
    assert [lag.cursor for lag in await queue.groups.lag(name, name)] == [0]
    assert (await queue.messages.list(name, partition=name)).messages[0].producer == name


async def test_a_name_that_is_not_there_is_not_found(scene: Scene) -> None:
    with pytest.raises(QueueNotFound):
        await scene.queue.queues.get("nobody")
    with pytest.raises(PartitionNotFound):
        await scene.queue.queues.clear("orders", partition="nobody")
    with pytest.raises(GroupNotFound):
        await scene.queue.groups.delete("orders", "nobody")


# Numbers.

BAD_NUMBERS: Corpus = {
    "negative": -1,
    "2**31": 2**31,
    "2**64": 2**64,
    "2**200": 2**200,
    "bool": True,
    "float": 1.5,
    "whole float": 1.0,
    "nan": float("nan"),
    "text": "1",
    "bytes": b"1",
    "list": [1],
}
COUNTS: Calls = {
    "pop batch": ("batch", lambda s, x: s.queue.pop("orders", batch=x)),
    "pop partitions": ("partitions", lambda s, x: s.queue.pop("orders", partitions=x)),
    "extend": ("seconds", lambda s, x: s.queue.extend(s.delivery, x)),
    "list messages": ("limit", lambda s, x: s.queue.messages.list("orders", limit=x)),
    "list messages of partition": (
        "limit",
        lambda s, x: s.queue.messages.list("orders", partition="alice", limit=x),
    ),
    "list letters": ("limit", lambda s, x: s.queue.dead_letters.list("orders", limit=x)),
    "trace messages": ("limit", lambda s, x: s.queue.traces.messages(RANDOM, limit=x)),
    "events by name": ("limit", lambda s, x: s.queue.traces.named("checkout", limit=x)),
    "trace names": ("limit", lambda s, x: s.queue.traces.names(limit=x)),
    "removals": ("limit", lambda s, x: s.queue.queues.removals("orders", limit=x)),
}


@pytest.mark.parametrize(("call", "field"), every(COUNTS))
async def test_a_count_that_makes_no_sense_is_refused(scene: Scene, call: Call, field: str) -> None:
    corpus = {**BAD_NUMBERS, "zero": 0}

    await check(scene, call, field, corpus, "refused")


async def test_a_lease_time_that_makes_no_sense_is_refused(scene: Scene) -> None:
    corpus = {**BAD_NUMBERS, "zero": 0}

    await check(
        scene,
        lambda s, x: s.queue.pop("orders", lease_seconds=x),
        "lease_seconds",
        corpus,
        "refused",
    )


async def test_a_wait_that_makes_no_sense_is_refused(scene: Scene) -> None:
    corpus = {
        **without(BAD_NUMBERS, "float", "whole float"),
        "a little negative": -0.001,
        "too long": 3601,
        "for ever": float("inf"),
        "none": None,
    }

    await check(scene, lambda s, x: s.queue.pop("orders", wait=x), "wait", corpus, "refused")


PAGES_BY_NUMBER: Calls = {
    "letters before": ("before", lambda s, x: s.queue.dead_letters.list("orders", before=x)),
    "events before": ("before", lambda s, x: s.queue.traces.named("checkout", before=x)),
}


@pytest.mark.parametrize(("call", "field"), every(PAGES_BY_NUMBER))
async def test_a_page_that_begins_at_no_number_is_refused(
    scene: Scene, call: Call, field: str
) -> None:
    await check(scene, call, field, without(BAD_NUMBERS, "2**31"), "refused")


LETTERS: Calls = {
    "get": ("number", lambda s, x: s.queue.dead_letters.get("orders", x)),
    "replay": ("number", lambda s, x: s.queue.dead_letters.replay("orders", [s.letter, x])),
    "delete": ("number", lambda s, x: s.queue.dead_letters.delete("orders", [s.letter, x])),
}


@pytest.mark.parametrize(("call", "field"), every(LETTERS))
async def test_a_number_that_no_dead_letter_can_have_is_refused_or_not_found(
    scene: Scene, call: Call, field: str
) -> None:
    corpus = {**BAD_NUMBERS, "zero": 0}

    await check(scene, call, field, corpus, "refused", "not found")


LISTS_OF_LETTERS: Calls = {
    "replay": ("numbers", lambda s, x: s.queue.dead_letters.replay("orders", x)),
    "delete": ("numbers", lambda s, x: s.queue.dead_letters.delete("orders", x)),
}


@pytest.mark.parametrize(("call", "field"), every(LISTS_OF_LETTERS))
async def test_what_is_not_a_list_of_numbers_is_refused(
    scene: Scene, call: Call, field: str
) -> None:
    await check(scene, call, field, {"none": None, "number": 5, "text": "12"}, "refused")


# Drafts.


def draft(**fields: Any) -> Draft:
    """A draft with something in it that does not belong there."""
    return Draft(**{"payload": b"", **fields})


BAD_DRAFTS: dict[str, tuple[str, object]] = {
    "none at all": ("drafts", []),
    "nil trace id": ("drafts[0].trace_id", [Draft(b"", trace_id=UUID(int=0))]),
    "empty tuple": ("drafts", ()),
    "none": ("drafts", None),
    "number": ("drafts", 5),
    "text": ("drafts", "abc"),
    "bytes": ("drafts", b"abc"),
    "one draft": ("drafts", draft()),
    "iterator": ("drafts", iter([draft()])),
    "too many": ("drafts", drafts(11)),
    "nothing within": ("drafts", [draft(), None]),
    "payloads": ("drafts", [b"a"]),
    "payload text": ("drafts[0].payload", [draft(payload="text")]),
    "payload none": ("drafts[1].payload", [draft(), draft(payload=None)]),
    "payload bytearray": ("drafts[0].payload", [draft(payload=bytearray(b"a"))]),
    "payload view": ("drafts[0].payload", [draft(payload=memoryview(b"a"))]),
    "payload object": ("drafts[0].payload", [draft(payload={"a": 1})]),
    "payload too large": ("drafts[2].payload", [*drafts(2), draft(payload=b"x" * 1001)]),
    "id empty": ("drafts[0].transaction_id", [draft(transaction_id="")]),
    "id too long": ("drafts[0].transaction_id", [draft(transaction_id="x" * 256)]),
    "id surrogate": ("drafts[1].transaction_id", [draft(), draft(transaction_id=SURROGATE)]),
    "id number": ("drafts[0].transaction_id", [draft(transaction_id=5)]),
    "id zero": ("drafts[0].transaction_id", [draft(transaction_id=0)]),
    "id bytes": ("drafts[0].transaction_id", [draft(transaction_id=b"a")]),
    "trace text": ("drafts[0].trace_id", [draft(trace_id=str(RANDOM))]),
    "trace bytes": ("drafts[1].trace_id", [draft(), draft(trace_id=RANDOM.bytes)]),
    "trace zero": ("drafts[0].trace_id", [draft(trace_id=0)]),
}


async def test_a_push_of_bad_drafts_is_refused(scene: Scene) -> None:
    found = {
        what: await answer(scene, lambda s, x: s.queue.push("new", x), bad, field)
        for what, (field, bad) in BAD_DRAFTS.items()
    }

    assert {what: said for what, said in found.items() if said != "refused"} == {}


async def test_a_transaction_with_bad_drafts_is_refused(scene: Scene) -> None:
    found = {
        what: await answer(scene, lambda s, x: s.transact(Push("orders", x)), bad, field)
        for what, (field, bad) in BAD_DRAFTS.items()
    }

    assert {what: said for what, said in found.items() if said != "refused"} == {}


async def test_a_push_of_as_much_as_allowed_is_taken(scene: Scene) -> None:
    largest = [Draft(b"x" * 1000, "full", f"{n}" * 255) for n in range(10)]

    receipts = await scene.queue.push("orders", largest)

    assert [receipt.offset for receipt in receipts] == list(range(10))


# Options.

DEFAULTS = msgspec.structs.asdict(QueueOptions())
WHOLE = [name for name, value in DEFAULTS.items() if type(value) is int]
SWITCHES = [name for name, value in DEFAULTS.items() if type(value) is bool]
NO_OPTION: Corpus = {"lists": [1], "none": None, "text": "1", "bytes": b"1", "float": 1.5}


@pytest.mark.parametrize("option", WHOLE)
async def test_an_option_that_is_a_number_takes_no_other_value(scene: Scene, option: str) -> None:
    corpus = {**NO_OPTION, "bool": True, "whole float": 1.0, "huge": 2**40, "small": -(2**40)}

    await check(
        scene,
        lambda s, x: s.queue.queues.configure("orders", **{option: x}),
        option,
        corpus,
        "refused",
    )


@pytest.mark.parametrize("option", SWITCHES)
async def test_an_option_that_is_a_switch_takes_no_other_value(scene: Scene, option: str) -> None:
    corpus = {**NO_OPTION, "zero": 0, "one": 1, "true": "true"}

    await check(
        scene,
        lambda s, x: s.queue.queues.configure("new", **{option: x}),
        option,
        corpus,
        "refused",
    )


@pytest.mark.parametrize("option", [name for name in WHOLE if name != "priority"])
async def test_no_time_and_no_size_is_negative(scene: Scene, option: str) -> None:
    await check(
        scene,
        lambda s, x: s.queue.queues.configure("orders", **{option: x}),
        option,
        {"negative": -1},
        "refused",
    )


@pytest.mark.parametrize("option", ["lease_tine", "leaseTime", "number", "name", "options", ""])
async def test_an_option_that_does_not_exist_is_refused(scene: Scene, option: str) -> None:
    await check(
        scene,
        lambda s, x: s.queue.queues.configure("new", **{option: x}),
        option,
        {"one": 1},
        "refused",
    )


# Popping.

BAD_POPS: dict[str, tuple[str, dict[str, Any]]] = {
    "nothing named": ("queue", {}),
    "both named": ("queue", {"queue": "orders", "namespace": "shop"}),
    "both named, task": ("queue", {"queue": "orders", "task": "sell"}),
    "partition without queue": ("partition", {"namespace": "shop", "partition": "alice"}),
    "mode unknown": ("subscription_mode", {"queue": "orders", "subscription_mode": "newest"}),
    "mode none": ("subscription_mode", {"queue": "orders", "subscription_mode": None}),
    "mode number": ("subscription_mode", {"queue": "orders", "subscription_mode": 5}),
    "mode list": ("subscription_mode", {"queue": "orders", "subscription_mode": []}),
    "auto ack text": ("auto_ack", {"queue": "orders", "auto_ack": "false"}),
    "auto ack number": ("auto_ack", {"queue": "orders", "auto_ack": 1}),
    "auto ack none": ("auto_ack", {"queue": "orders", "auto_ack": None}),
}


async def test_a_pop_that_cannot_be_meant_is_refused(scene: Scene) -> None:
    found = {
        what: await answer(scene, lambda s, x: s.queue.pop(**x), bad, field)
        for what, (field, bad) in BAD_POPS.items()
    }

    assert {what: said for what, said in found.items() if said != "refused"} == {}


# Leases.

NO_LEASES: Corpus = {
    "empty": "",
    "text": "lease",
    "almost": "00000000-0000-0000-0000-00000000000g",
    "surrogate": SURROGATE,
    "long": "x" * 100_000,
    "none": None,
    "number": 5,
    "bytes": RANDOM.bytes,
    "list": [str(RANDOM)],
}
LEASES: Calls = {
    "ack": ("lease", lambda s, x: s.queue.ack(x)),
    "ack messages": ("lease", lambda s, x: s.queue.ack(x, s.delivery.messages)),
    "fail": ("lease", lambda s, x: s.queue.fail(x, s.delivery.messages)),
    "settle": ("lease", lambda s, x: s.queue.settle(x, [s.verdict()])),
    "extend": ("lease", lambda s, x: s.queue.extend(x, 60)),
    "transact ack": ("lease_id", lambda s, x: s.transact(Ack(x))),
    "transact extend": ("lease_id", lambda s, x: s.transact(Extend(x, 60))),
    "transact required": ("required_leases", lambda s, x: s.transact(required_leases=[x])),
}


@pytest.mark.parametrize(("call", "field"), every(LEASES))
async def test_what_is_not_a_lease_is_refused(scene: Scene, call: Call, field: str) -> None:
    await check(scene, call, field, NO_LEASES, "refused")


@pytest.mark.parametrize(("call", "field"), every(LEASES))
async def test_a_lease_that_nobody_has_is_lost(scene: Scene, call: Call, field: str) -> None:
    await check(scene, call, field, {"unknown": str(RANDOM)}, "lease lost")


@pytest.mark.parametrize(
    ("call", "field"),
    every(
        {
            "ack": ("lease", lambda s, x: s.queue.ack(x)),
            "fail": ("lease", lambda s, x: s.queue.fail(x)),
            "extend": ("lease", lambda s, x: s.queue.extend(x, 60)),
        }
    ),
)
async def test_a_delivery_that_was_acknowledged_when_popped_has_no_lease(
    scene: Scene, call: Call, field: str
) -> None:
    await check(scene, call, field, {"popped": scene.popped}, "refused")


async def test_a_failure_of_everything_needs_the_delivery(scene: Scene) -> None:
    lease_id = lease_of(scene.delivery)

    await check(scene, lambda s, x: s.queue.fail(x), "messages", {"lease id": lease_id}, "refused")


# Verdicts.

BAD_VERDICTS: dict[str, tuple[str, Callable[[Scene], Any]]] = {
    "empty": ("verdicts", lambda s: []),
    "number": ("verdicts", lambda s: 5),
    "text": ("verdicts", lambda s: "completed"),
    "nothing within": ("verdicts", lambda s: [None]),
    "messages": ("verdicts", lambda s: s.delivery.messages),
    "status unknown": ("status", lambda s: [s.verdict(status="done")]),
    "status of queen": ("status", lambda s: [s.verdict(status="dlq")]),
    "status none": ("status", lambda s: [s.verdict(status=None)]),
    "status number": ("status", lambda s: [s.verdict(status=1)]),
    "status list": ("status", lambda s: [s.verdict(status=["completed"])]),
    "offset behind": ("offset", lambda s: [s.verdict(offset=2)]),
    "offset far behind": ("offset", lambda s: [s.verdict(), s.verdict(offset=2**64)]),
    "offset negative": ("offset", lambda s: [s.verdict(offset=-1)]),
    "offset text": ("offset", lambda s: [s.verdict(offset="0")]),
    "offset float": ("offset", lambda s: [s.verdict(offset=0.0)]),
    "offset half": ("offset", lambda s: [s.verdict(offset=0.5)]),
    "offset bool": ("offset", lambda s: [s.verdict(offset=False)]),
    "offset none": ("offset", lambda s: [s.verdict(offset=None)]),
    "partition name": ("partition", lambda s: [s.verdict(partition="alice")]),
    "partition none": ("partition", lambda s: [s.verdict(partition=None)]),
    "partition list": ("partition", lambda s: [s.verdict(partition=[])]),
    "error number": ("error", lambda s: [s.verdict(status="failed", error=5)]),
    "error none": ("error", lambda s: [s.verdict(status="dead_letter", error=None)]),
    "error bytes": ("error", lambda s: [s.verdict(status="failed", error=b"no")]),
    "error surrogate": ("error", lambda s: [s.verdict(status="failed", error=SURROGATE)]),
    "last error surrogate": (
        "error",
        lambda s: [s.verdict(status="dead_letter", error=SURROGATE)],
    ),
    "twice": ("offset", lambda s: [s.verdict(), s.verdict()]),
    "twice, differently": ("offset", lambda s: [s.verdict(), s.verdict(status="failed")]),
    "good, then twice": (
        "offset",
        lambda s: [s.verdict(offset=1), s.verdict(), s.verdict(status="retry")],
    ),
}
VERDICTS: Calls = {
    "settle": ("", lambda s, x: s.queue.settle(s.delivery, x(s))),
    "transact": ("", lambda s, x: s.transact(Ack(lease_of(s.delivery), x(s)))),
}


@pytest.mark.parametrize("what", BAD_VERDICTS)
@pytest.mark.parametrize(("call", "_"), every(VERDICTS))
async def test_a_verdict_that_cannot_be_meant_is_refused(
    scene: Scene, call: Call, _: str, what: str
) -> None:
    field, bad = BAD_VERDICTS[what]

    await check(scene, call, field, {what: bad}, "refused", "lease lost")


BAD_MESSAGES: Corpus = {
    "empty": [],
    "number": 5,
    "text": "abc",
    "ids": [RANDOM],
    "nothing within": [None],
}
MESSAGES: Calls = {
    "ack": ("messages", lambda s, x: s.queue.ack(s.delivery, x)),
    "fail": ("messages", lambda s, x: s.queue.fail(s.delivery, x)),
}


@pytest.mark.parametrize(("call", "field"), every(MESSAGES))
async def test_what_are_not_messages_is_refused(scene: Scene, call: Call, field: str) -> None:
    await check(scene, call, field, BAD_MESSAGES, "refused")


@pytest.mark.parametrize(("call", "field"), every(MESSAGES))
async def test_a_message_of_another_delivery_is_refused(
    scene: Scene, call: Call, field: str
) -> None:
    await check(scene, call, field, {"other": scene.popped.messages}, "refused", "lease lost")


@pytest.mark.parametrize("what", [*NOT_TEXT, "none", "surrogate"])
async def test_a_reason_that_is_no_text_is_refused(scene: Scene, what: str) -> None:
    corpus = {**NOT_TEXT, "none": None, "surrogate": SURROGATE}

    await check(
        scene,
        lambda s, x: s.queue.fail(s.delivery, error=x),
        "error",
        {what: corpus[what]},
        "refused",
    )


# Transactions.

BAD_TRANSACTIONS: dict[str, tuple[str, Call]] = {
    "nothing": ("operations", lambda s, _: s.queue.transact([])),
    "none": ("operations", lambda s, x: s.queue.transact(x)),
    "number": ("operations", lambda s, _: s.queue.transact(5)),  # type: ignore[arg-type]
    "text": ("operations", lambda s, _: s.queue.transact("push")),  # type: ignore[arg-type]
    "not an operation": ("operations[1]", lambda s, _: s.transact("ack")),
    "nothing within": ("operations[1]", lambda s, _: s.transact(None)),
    "extend negative": ("seconds", lambda s, _: s.transact(Extend(lease_of(s.delivery), -1))),
    "extend too long": ("seconds", lambda s, _: s.transact(Extend(lease_of(s.delivery), 43_201))),
    "extend bool": ("seconds", lambda s, _: s.transact(Extend(lease_of(s.delivery), True))),
    "extend text": ("seconds", lambda s, _: s.transact(Extend(lease_of(s.delivery), "60"))),  # type: ignore[arg-type]
    "extend float": ("seconds", lambda s, _: s.transact(Extend(lease_of(s.delivery), 1.5))),  # type: ignore[arg-type]
    "required none": ("required_leases", lambda s, x: s.transact(required_leases=x)),
    "required text": ("required_leases", lambda s, _: s.transact(required_leases="abc")),
}


async def test_a_transaction_that_cannot_be_meant_is_refused(scene: Scene) -> None:
    found = {
        what: await answer(scene, call, None, field)
        for what, (field, call) in BAD_TRANSACTIONS.items()
    }

    assert {what: said for what, said in found.items() if said != "refused"} == {}


async def test_what_may_not_be_an_idempotency_key_is_refused(scene: Scene) -> None:
    corpus = {**NOT_TEXT, "empty": "", "256 characters": "x" * 256, "surrogate": SURROGATE}

    await check(
        scene,
        lambda s, x: s.transact(idempotency_key=x),
        "idempotency_key",
        corpus,
        "refused",
    )


# Times.

BAD_TIMES: Corpus = {
    "naive": datetime(2030, 1, 1),  # noqa: DTZ001
    "text": "2030-01-01T00:00:00Z",
    "date": datetime(2030, 1, 1, tzinfo=UTC).date(),
    "float": 1.5,
    "before year 1": datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    "after year 9999": datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
}
TIMES: Calls = {
    "subscribe": (
        "subscription_from",
        lambda s, x: s.queue.pop("orders", group="new", subscription_from=x),
    ),
    "seek": ("to", lambda s, x: s.queue.groups.seek("orders", "audit", x)),
    "letters from": ("from_", lambda s, x: s.queue.dead_letters.list("orders", from_=x)),
    "letters to": ("to", lambda s, x: s.queue.dead_letters.list("orders", to=x)),
    "count from": ("from_", lambda s, x: s.queue.dead_letters.count("orders", from_=x)),
    "count to": ("to", lambda s, x: s.queue.dead_letters.count("orders", to=x)),
}


@pytest.mark.parametrize(("call", "field"), every(TIMES))
async def test_a_time_that_cannot_be_told_is_refused(scene: Scene, call: Call, field: str) -> None:
    await check(scene, call, field, BAD_TIMES, "refused")


async def test_a_place_to_seek_that_does_not_exist_is_refused(scene: Scene) -> None:
    corpus = {
        **without(BAD_NUMBERS, "text", "bytes", "list"),
        "word": "middle",
        "empty": "",
        "none": None,
        "bytes": b"end",
        "list": ["end"],
        "beyond the end": 4,
        "false": False,
    }

    await check(
        scene,
        lambda s, x: s.queue.groups.seek("orders", "billing", x, partition="alice"),
        "to",
        corpus,
        "refused",
    )


async def test_a_place_to_seek_that_one_partition_does_not_have_moves_none(scene: Scene) -> None:
    await check(
        scene,
        lambda s, x: s.queue.groups.seek("orders", "billing", x),
        "to",
        {"beyond the end of one": 2},
        "refused",
    )


FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [(FIRST, [b"0", b"0", b"1", b"2"]), (LAST, [])],
    ids=["year 1", "year 9999"],
)
async def test_a_group_may_start_at_the_first_or_the_last_moment_there_is(
    scene: Scene, moment: datetime, expected: list[bytes]
) -> None:
    found = await pop_all(
        scene.queue, group="new", batch=10, partitions=10, subscription_from=moment
    )

    assert sorted(found) == expected
    assert [lag.backlog for lag in await scene.queue.groups.lag("orders", "new")] == [0, 0]
    assert len(await scene.queue.groups.list("orders")) == 3


@pytest.mark.parametrize(("moment", "cursor"), [(FIRST, 0), (LAST, 3)], ids=["year 1", "year 9999"])
async def test_a_group_may_seek_to_the_first_or_the_last_moment_there_is(
    scene: Scene, moment: datetime, cursor: int
) -> None:
    await scene.queue.groups.seek("orders", "billing", moment, partition="alice")

    lags = {lag.partition: lag.cursor for lag in await scene.queue.groups.lag("orders", "billing")}
    assert lags["alice"] == cursor


async def test_dead_letters_of_all_times_may_be_asked_for(scene: Scene) -> None:
    assert await scene.queue.dead_letters.count("orders", from_=FIRST, to=LAST) == 1
    assert await scene.queue.dead_letters.list("orders", from_=LAST) == []
    assert await scene.queue.dead_letters.list("orders", to=FIRST) == []


# Pages of messages.

NO_PAGES: Corpus = {
    "empty": "",
    "text": "x",
    "negative": "-1",
    "fraction": "1.5",
    "power": "\N{SUPERSCRIPT TWO}",
    "blank": " ",
    "5000 digits": "9" * 5000,
    "number": 5,
    "bytes": b"1",
    "surrogate": SURROGATE,
    "nul": "1\x00",
}
NO_PAGES_OF_A_PARTITION: Corpus = {**NO_PAGES, "of a queue": "0:1"}
NO_PAGES_OF_A_QUEUE: Corpus = {
    **NO_PAGES,
    "of a partition": "1",
    "negative head": "0:-1",
    "negative lane": "-1:0",
    "no head": "0:",
    "no lane": ":1",
    "text head": "0:x",
    "three": "0:1:2",
    "comma": ",",
    "trailing comma": "0:1,",
    "2**64": f"0:{2**64}",
    "lane of 2**64": f"{2**64}:0",
    "5000 digits of head": "0:" + "9" * 5000,
}


async def test_what_is_no_page_of_a_partition_is_refused(scene: Scene) -> None:
    await check(
        scene,
        lambda s, x: s.queue.messages.list("orders", partition="alice", before=x),
        "before",
        NO_PAGES_OF_A_PARTITION,
        "refused",
    )


async def test_what_is_no_page_of_a_queue_is_refused(scene: Scene) -> None:
    await check(
        scene,
        lambda s, x: s.queue.messages.list("orders", before=x),
        "before",
        NO_PAGES_OF_A_QUEUE,
        "refused",
    )


@pytest.mark.parametrize("before", ["0:1000000", "0:4,1:7", "7:3", f"0:{2**63}"])
async def test_a_page_of_another_queue_shows_nothing_but_this_one(
    scene: Scene, before: str
) -> None:
    await scene.queue.push("other", drafts(5))

    page = await scene.queue.messages.list("orders", before=before)

    assert {message.queue for message in page.messages} <= {"orders"}


# Ids.

NO_MESSAGES: Corpus = {
    "text": str(UUID(int=0)),
    "number": 5,
    "none": None,
    "bytes": bytes(16),
    "nil": UUID(int=0),
    "random": RANDOM,
    "all": UUID(int=2**128 - 1),
}
MESSAGE_IDS: Calls = {
    "get": ("message_id", lambda s, x: s.queue.messages.get(x)),
    "delete": ("message_id", lambda s, x: s.queue.messages.delete(x)),
    "record": ("message_id", lambda s, x: s.queue.traces.record(x, "step", b"")),
    "events": ("message_id", lambda s, x: s.queue.traces.events(x)),
}


@pytest.mark.parametrize(("call", "field"), every(MESSAGE_IDS))
async def test_what_is_not_a_message_id_is_refused(scene: Scene, call: Call, field: str) -> None:
    await check(scene, call, field, NO_MESSAGES, "refused")


async def test_what_is_not_a_trace_id_is_refused(scene: Scene) -> None:
    corpus = without(NO_MESSAGES, "nil", "random", "all")

    await check(scene, lambda s, x: s.queue.traces.messages(x), "trace_id", corpus, "refused")


async def test_what_is_not_a_transaction_id_is_refused(scene: Scene) -> None:
    corpus = {
        **NOT_TEXT,
        "none": None,
        "empty": "",
        "256 characters": "x" * 256,
        "surrogate": SURROGATE,
    }

    await check(
        scene,
        lambda s, x: s.queue.messages.find("orders", "alice", x),
        "transaction_id",
        corpus,
        "refused",
    )


# Traces.

BAD_EVENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "data text": ("data", {"data": "{}"}),
    "data none": ("data", {"data": None}),
    "data object": ("data", {"data": {}}),
    "data too large": ("data", {"data": b"x" * 1001}),
    "names none": ("names", {"names": None}),
    "names number": ("names", {"names": 5}),
    "names text": ("names", {"names": "checkout"}),
    "too many names": ("names", {"names": [f"n{n}" for n in range(21)]}),
}


async def test_an_event_that_cannot_be_recorded_is_refused(scene: Scene) -> None:
    event = {"kind": "step", "data": b""}
    found = {
        what: await answer(
            scene, lambda s, x: s.queue.traces.record(s.message, **x), event | bad, field
        )
        for what, (field, bad) in BAD_EVENTS.items()
    }

    assert {what: said for what, said in found.items() if said != "refused"} == {}


# The whole.


async def test_bad_input_of_one_caller_does_not_touch_another_in_the_same_commit(
    scene: Scene,
) -> None:
    push, record = scene.queue.push, scene.queue.traces.record
    bad: list[Any] = [
        push("orders", drafts(1, "alice"), producer=SURROGATE),
        record(scene.message, "step", b"", worker=SURROGATE),
        scene.queue.fail(scene.delivery, error=SURROGATE),
    ]

    good, *others = await asyncio.gather(
        push("orders", drafts(1, "alice")), *bad, return_exceptions=True
    )

    assert isinstance(good, Sequence)
    assert [receipt.offset for receipt in good] == [3]
    assert [type(other) for other in others] == [Invalid, Invalid, Invalid]


async def test_a_backup_to_no_new_place_is_refused(scene: Scene, tmp_path: Path) -> None:
    corpus = {"number": 5, "none": None, "empty": "", "here": ".", "there already": tmp_path}

    await check(scene, lambda s, x: s.queue.backup(x), "path", corpus, "refused")
