"""``skep trace``: messages that share a trace id, and their events."""

from typing import Annotated
from uuid import UUID

import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.exit_code import NOTHING_FOUND, print_error
from skep.cli.json_view import event_json, message_json
from skep.cli.options import Count, Json
from skep.client.sync_client import Client
from skep.model.name import to_datetime


def trace(
    trace_id: Annotated[UUID | None, typer.Argument(help="Trace id of messages.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of events.")] = None,
    count: Count = 100,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Print the messages of a trace id, or the events with a name.

    Messages are printed in the order of their pushes, events newest first. If there are none, the
    exit code is 4.
    """
    if (trace_id is None) == (name is None):
        raise typer.BadParameter("give either TRACE_ID or --name")
    with connect(url, token) as client:
        if trace_id is not None:
            _print_messages(client, trace_id, count, as_json=as_json)
        else:
            _print_events(client, name or "", count, as_json=as_json)


def _print_messages(client: Client, trace_id: UUID, count: int, *, as_json: bool) -> None:
    messages = client.traces.statuses(trace_id, limit=count)
    _check_found(messages, f"no message with trace id {trace_id}")
    output.print_list(
        [message_json(message) | {"status": status} for message, status in messages],
        ("pushed at", "queue", "partition", "offset", "status", "transaction id"),
        [
            (
                *(message.created_at, message.queue, message.partition, message.offset),
                *(status, message.transaction_id),
            )
            for message, status in messages
        ],
        as_json=as_json,
    )


def _print_events(client: Client, name: str, count: int, *, as_json: bool) -> None:
    events = client.traces.named_messages(name, limit=count)
    _check_found(events, f"no event with name {name!r}")
    rows = [
        (
            *(to_datetime(traced.event.created_at), traced.message.queue, traced.message.partition),
            *(traced.message.transaction_id, traced.event.group),
            *(traced.event.kind, traced.event.data),
        )
        for traced in events
    ]
    output.print_list(
        [event_json(traced) for traced in events],
        ("at", "queue", "partition", "transaction id", "group", "event", "data"),
        rows,
        as_json=as_json,
    )


def _check_found(results: object, message: str) -> None:
    if not results:
        print_error(message)
        raise typer.Exit(NOTHING_FOUND)
