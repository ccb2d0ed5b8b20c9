"""``skep message``: one message, by its id."""

from typing import Annotated
from uuid import UUID

import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.json_view import message_json
from skep.cli.options import Json, OnlyGroup, Yes, confirm

app = typer.Typer(no_args_is_help=True)

MessageId = Annotated[
    UUID, typer.Argument(help="Id of the message, as printed by skep tail --json.")
]


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
    output.print_one(message_json(message), fields, as_json=as_json)


@app.command()
def give_up(
    message_id: MessageId,
    group: OnlyGroup = None,
    error: Annotated[str, typer.Option(help="Reason of the dead letter.")] = "",
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Dead-letter a message for the groups that have not read it."""
    with connect(url, token) as client:
        groups = client.messages.give_up(message_id, group=group, error=error)
    output.print_done(
        {"groups": groups}, f"dead-lettered for groups: {', '.join(groups)}", as_json=as_json
    )


@app.command()
def delete(
    message_id: MessageId,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Permanently delete a message; its offset stays empty."""
    confirm(f"Permanently delete message {message_id}?", yes=yes)
    with connect(url, token) as client:
        client.messages.delete(message_id)
    output.print_done({"deleted": message_id}, f"deleted {message_id}", as_json=as_json)
