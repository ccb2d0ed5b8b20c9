"""``skep message``: one message, by its id."""

from typing import Annotated
from uuid import UUID

import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.json_view import shown_message
from skep.cli.options import Json, OnlyGroup, Yes, confirm

app = typer.Typer(no_args_is_help=True)

MessageId = Annotated[UUID, typer.Argument(help="Its id, as skep tail --json shows it.")]


@app.command()
def show(
    message_id: MessageId, url: Url = DEFAULT_URL, token: Token = None, as_json: Json = False
) -> None:
    """Show a message with its payload, without consuming it."""
    with connect(url, token) as client:
        message = client.messages.get(message_id)
    fields = {
        "queue": message.queue,
        "partition": message.partition,
        "offset": message.offset,
        "transaction id": message.transaction_id,
        "trace id": message.trace_id,
        "producer": message.producer,
        "pushed at": message.created_at,
        "payload": message.payload,
    }
    output.print_one(shown_message(message), fields, as_json=as_json)


@app.command()
def give_up(
    message_id: MessageId,
    group: OnlyGroup = None,
    error: Annotated[str, typer.Option(help="Why.")] = "",
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Make a message a dead letter of the groups that have not read it."""
    with connect(url, token) as client:
        groups = client.messages.give_up(message_id, group=group, error=error)
    words = f"it is a dead letter of {', '.join(groups)} now"
    output.print_done({"groups": groups}, words, as_json=as_json)


@app.command()
def delete(
    message_id: MessageId,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Remove a message for good; its offset stays empty."""
    confirm(f"Remove the message {message_id} for good?", yes=yes)
    with connect(url, token) as client:
        client.messages.delete(message_id)
    output.print_done({"deleted": message_id}, f"{message_id} is removed", as_json=as_json)
