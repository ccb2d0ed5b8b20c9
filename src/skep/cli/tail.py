"""``skep tail``: reading along without disturbing anybody."""

import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Any
from uuid import uuid4

import msgspec
import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Json, Token, Url
from skep.cli.message import COLUMNS, shown_message, to_row
from skep.cli.operate import Operator, path
from skep.errors import SkepError
from skep.model.address import partition_of
from skep.model.message import Message
from skep.wire.group import DeletedGroup
from skep.wire.message import WireMessage, WireMessages
from skep.wire.payload import to_payload
from skep.wire.pop import chosen_id

BEGINNING = "1970-01-01T00:00:00Z"
BATCH = 100
WAIT_SECONDS = 20.0

Count = Annotated[int, typer.Option("--count", "-n", min=1, max=1000, help="How many at most.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Show what is pushed from now on.")]
Group = Annotated[
    str | None, typer.Option(help="With -f: a group that stays, and goes on where it was.")
]
Partition = Annotated[str | None, typer.Option(help="From this partition only.")]


def tail(
    queue: Annotated[str, typer.Argument(help="The queue.")],
    follow: Follow = False,
    count: Count = 10,
    group: Group = None,
    partition: Partition = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show the newest messages of a queue without consuming them.

    The newest comes last. With -f, show what comes from now on until you stop it. That takes a
    group of its own, tail-<random>, which is deleted at the end: others do not notice. With
    --json there is one message per line, as skep push --envelope takes it.
    """
    if group is not None and not follow:
        raise typer.BadParameter("--group goes with --follow")
    with Operator(url, token) as operator:
        if not follow:
            _print(_newest(operator, queue, partition, count), as_json=as_json)
            return
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            _follow(operator, queue, partition, group, as_json=as_json)


def _newest(operator: Operator, queue: str, partition: str | None, count: int) -> list[Message]:
    found = operator.get(
        path("messages"),
        WireMessages,
        queue=queue,
        partition=partition,
        limit=count,
        from_=BEGINNING,
    )
    return [_to_message(message) for message in reversed(found.messages)]


def _follow(
    operator: Operator, queue: str, partition: str | None, group: str | None, *, as_json: bool
) -> None:
    name = group or f"tail-{uuid4().hex[:12]}"
    try:
        for messages in _coming(operator, queue, partition, name):
            _print(messages, as_json=as_json, header=False)
    finally:
        if group is None:
            with suppress(SkepError):
                operator.delete(path("consumer-groups", name, "queues", queue), DeletedGroup)


def _coming(
    operator: Operator, queue: str, partition: str | None, group: str
) -> Iterator[list[Message]]:
    while True:
        delivery = operator.client.pop(
            queue,
            group=group,
            partition=partition,
            batch=BATCH,
            partitions=BATCH,
            wait=WAIT_SECONDS,
            auto_ack=True,
            subscription_mode="new",
        )
        if delivery is not None:
            yield delivery.messages


def _print(messages: list[Message], *, as_json: bool, header: bool = True) -> None:
    if as_json:
        for message in messages:
            output.print_line(shown_message(message))
    else:
        output.print_table(COLUMNS, [to_row(each) for each in messages], header=header)


def _to_message(shown: WireMessage) -> Message:
    payload: Any = b"" if shown.payload is msgspec.UNSET else shown.payload
    encoding = "json" if shown.encoding is msgspec.UNSET else shown.encoding
    return Message(
        queue=shown.queue,
        partition=shown.partition,
        partition_number=partition_of(shown.partition_id),
        offset=shown.offset,
        payload=to_payload(payload, encoding),
        chosen_id=chosen_id(shown.transaction_id, shown.id),
        trace=shown.trace_id.bytes if shown.trace_id else None,
        producer=shown.producer_sub,
        created_at=shown.created_at,
    )
