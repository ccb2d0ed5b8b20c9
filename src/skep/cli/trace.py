"""``skep trace``: the story of messages that belong together."""

from typing import Annotated
from uuid import UUID

import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Json, Token, Url
from skep.cli.ending import NOTHING_FOUND, complain
from skep.cli.operate import Operator, path
from skep.wire.trace import NamedEvents, TracedMessages


def trace(
    trace_id: Annotated[UUID | None, typer.Argument(help="The trace id.")] = None,
    name: Annotated[str | None, typer.Option(help="A name that events carry.")] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show messages with a trace id, or events with a name.

    Messages come in the order in which they were pushed, events the newest first.
    """
    if (trace_id is None) == (name is None):
        raise typer.BadParameter("give a TRACE_ID or a --name")
    with Operator(url, token) as operator:
        if trace_id is not None:
            _print_messages(operator, trace_id, as_json=as_json)
        else:
            _print_events(operator, name or "", as_json=as_json)


def _print_messages(operator: Operator, trace_id: UUID, *, as_json: bool) -> None:
    found = operator.get(path("traces", "id", trace_id), TracedMessages).messages
    _check_found(found, f"there is no message with the trace id {trace_id}")
    if as_json:
        output.print_document(found)
        return
    output.print_table(
        ("pushed at", "queue", "partition", "offset", "status", "transaction id"),
        [
            (
                *(each.created_at, each.queue, each.partition, each.offset),
                *(each.status, each.transaction_id),
            )
            for each in found
        ],
    )


def _print_events(operator: Operator, name: str, *, as_json: bool) -> None:
    found = operator.get(path("traces", "by-name", name), NamedEvents).traces
    _check_found(found, f"there is no event with the name {name!r}")
    if as_json:
        output.print_document(found)
        return
    output.print_table(
        ("at", "queue", "partition", "transaction id", "group", "event", "data"),
        [
            (
                *(each.created_at, each.queue_name, each.partition_name, each.transaction_id),
                *(each.consumer_group, each.event_type, bytes(each.data)),
            )
            for each in found
        ],
    )


def _check_found(found: object, words: str) -> None:
    if not found:
        complain(words)
        raise typer.Exit(NOTHING_FOUND)
