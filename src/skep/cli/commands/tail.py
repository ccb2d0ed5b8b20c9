"""``skep tail``: read messages without consuming them."""

import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated
from uuid import uuid4

import typer

from skep.cli import output
from skep.cli.commands.pop import COLUMNS, to_row
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.json_view import message_json
from skep.cli.options import Count, Json, OnlyPartition, Queue
from skep.client.sync_client import Client
from skep.errors import SkepError
from skep.model.message import Message

BATCH = 100
WAIT_SECONDS = 20.0

Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Print new messages until interrupted.")
]
Group = Annotated[
    str | None, typer.Option(help="With -f: use this group, and continue from its cursor.")
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
    """Print the newest messages of a queue without consuming them.

    The newest message is printed last. With -f, new messages are printed until interrupted, by a
    temporary group tail-<random>, which does not affect other groups. With --json, each message
    is one line that skep push --envelope accepts.
    """
    if group is not None and not follow:
        raise typer.BadParameter("--group requires --follow")
    with connect(url, token) as client:
        if not follow:
            messages = _newest(client, queue, partition, count)
            _print(messages, as_json=as_json)
            if not messages:
                output.note(f"no messages in queue {queue!r}")
            return
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            _follow(client, queue, partition, group, as_json=as_json)


def _newest(client: Client, queue: str, partition: str | None, count: int) -> list[Message]:
    """Return the newest messages, the newest last. A page may be short but not the last."""
    messages: list[Message] = []
    before = None
    while len(messages) < count:
        page = client.messages.list(
            queue, partition=partition, before=before, limit=count - len(messages)
        )
        messages += page.messages
        before = page.next
        if before is None:
            break
    return messages[::-1]


def _follow(
    client: Client, queue: str, partition: str | None, group: str | None, *, as_json: bool
) -> None:
    name = group or f"tail-{uuid4().hex[:12]}"
    try:
        for messages in _new_messages(client, queue, partition, name):
            _print(messages, as_json=as_json, header=False)
    finally:
        if group is None:
            with suppress(SkepError):
                client.groups.delete(queue, name)


def _new_messages(
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
            output.print_line(message_json(message))
    elif messages:
        output.print_table(COLUMNS, [to_row(message) for message in messages], header=header)
