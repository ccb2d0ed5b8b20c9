"""``skep tail``: reading along without disturbing anybody."""

import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated
from uuid import uuid4

import typer

from skep.cli import output
from skep.cli.commands.pop import COLUMNS, to_row
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.json_view import shown_message
from skep.cli.options import Count, Json, OnlyPartition, Queue
from skep.client.sync_client import Client
from skep.errors import SkepError
from skep.model.message import Message

BATCH = 100
WAIT_SECONDS = 20.0

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Show what is pushed from now on.")]
Group = Annotated[
    str | None, typer.Option(help="With -f: a group that stays, and goes on where it was.")
]


def tail(
    queue: Queue,
    follow: Follow = False,
    count: Count = 10,
    group: Group = None,
    partition: OnlyPartition = None,
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
    with connect(url, token) as client:
        if not follow:
            found = _newest(client, queue, partition, count)
            _print(found, as_json=as_json)
            if not found:
                output.note(f"there is nothing in {queue!r}")
            return
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            _follow(client, queue, partition, group, as_json=as_json)


def _newest(client: Client, queue: str, partition: str | None, count: int) -> list[Message]:
    """The newest messages, the newest last. A page may be short although there is another."""
    found: list[Message] = []
    before = None
    while len(found) < count:
        page = client.messages.list(
            queue, partition=partition, before=before, limit=count - len(found)
        )
        found += page.messages
        before = page.next
        if before is None:
            break
    return found[::-1]


def _follow(
    client: Client, queue: str, partition: str | None, group: str | None, *, as_json: bool
) -> None:
    name = group or f"tail-{uuid4().hex[:12]}"
    try:
        for messages in _coming(client, queue, partition, name):
            _print(messages, as_json=as_json, header=False)
    finally:
        if group is None:
            with suppress(SkepError):
                client.groups.delete(queue, name)


def _coming(
    client: Client, queue: str, partition: str | None, group: str
) -> Iterator[list[Message]]:
    while True:
        delivery = client.pop(
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
    elif messages:
        output.print_table(COLUMNS, [to_row(each) for each in messages], header=header)
