"""``skep trace``: the story of messages that belong together."""

from typing import Annotated
from uuid import UUID

import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.exit_code import NOTHING_FOUND, complain
from skep.cli.json_view import shown_event, shown_message
from skep.cli.options import Count, Json
from skep.client.sync_client import Client
from skep.model.name import to_datetime


def trace(
    trace_id: Annotated[UUID | None, typer.Argument(help="The trace id.")] = None,
    name: Annotated[str | None, typer.Option(help="A name that events carry.")] = None,
    count: Count = 100,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show messages with a trace id, or events with a name.

    Messages come in the order in which they were pushed, events the newest first. If there is
    nothing, the exit code is 4.
    """
    if (trace_id is None) == (name is None):
        raise typer.BadParameter("give a TRACE_ID or a --name")
    with connect(url, token) as client:
        if trace_id is not None:
            _print_messages(client, trace_id, count, as_json=as_json)
        else:
            _print_events(client, name or "", count, as_json=as_json)


def _print_messages(client: Client, trace_id: UUID, count: int, *, as_json: bool) -> None:
    found = client.traces.statuses(trace_id, limit=count)
    _check_found(found, f"there is no message with the trace id {trace_id}")
    output.print_list(
        [shown_message(message) | {"status": status} for message, status in found],
        ("pushed at", "queue", "partition", "offset", "status", "transaction id"),
        [
            (
                *(message.created_at, message.queue, message.partition, message.offset),
                *(status, message.transaction_id),
            )
            for message, status in found
        ],
        as_json=as_json,
    )


def _print_events(client: Client, name: str, count: int, *, as_json: bool) -> None:
    found = client.traces.named_messages(name, limit=count)
    _check_found(found, f"there is no event with the name {name!r}")
    rows = [
        (
            *(to_datetime(each.event.created_at), each.message.queue, each.message.partition),
            *(each.message.transaction_id, each.event.group, each.event.kind, each.event.data),
        )
        for each in found
    ]
    output.print_list(
        [shown_event(each) for each in found],
        ("at", "queue", "partition", "transaction id", "group", "event", "data"),
        rows,
        as_json=as_json,
    )


def _check_found(found: object, words: str) -> None:
    if not found:
        complain(words)
        raise typer.Exit(NOTHING_FOUND)
