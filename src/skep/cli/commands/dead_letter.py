"""``skep dead-letter``: messages that groups gave up on."""

from typing import Annotated

import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.json_view import dead_letter_json
from skep.cli.options import Count, Json, OnlyGroup, OnlyPartition, Queue, Yes, confirm

app = typer.Typer(no_args_is_help=True)

Numbers = Annotated[list[int] | None, typer.Argument(help="Numbers of the dead letters.")]
All = Annotated[bool, typer.Option("--all", help="All dead letters of the queue.")]


@app.command("list")
def list_letters(
    queue: Queue,
    group: OnlyGroup = None,
    partition: OnlyPartition = None,
    count: Count = 100,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the dead letters of a queue, newest first."""
    with connect(url, token) as client:
        letters = client.dead_letters.list(queue, group=group, partition=partition, limit=count)
        total = len(letters)
        if total == count and not as_json:
            total = client.dead_letters.count(queue, group=group, partition=partition)
    output.print_list(
        [dead_letter_json(letter) for letter in letters],
        ("number", "group", "partition", "offset", "failed at", "error"),
        [
            (
                *(letter.number, letter.group, letter.partition, letter.offset),
                *(letter.failed_at, letter.error),
            )
            for letter in letters
        ],
        as_json=as_json,
        empty=f"no matching dead letters in queue {queue!r}",
    )
    if total > len(letters):
        output.note(f"showing {len(letters)} of {total}; --count shows more")


@app.command()
def show(
    queue: Queue,
    number: Annotated[int, typer.Argument(help="Number of the dead letter.")],
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show a dead letter with its payload."""
    with connect(url, token) as client:
        letter = client.dead_letters.get(queue, number)
    fields = {
        "number": letter.number,
        "group": letter.group,
        "partition": letter.partition,
        "offset": letter.offset,
        "message id": letter.message_id,
        "transaction id": letter.transaction_id,
        "trace id": letter.trace_id,
        "producer": letter.producer,
        "pushed at": letter.created_at,
        "failed at": letter.failed_at,
        "attempts": letter.attempts,
        "error": letter.error,
        "payload": letter.payload,
    }
    output.print_one(dead_letter_json(letter), fields, as_json=as_json)


@app.command()
def replay(
    queue: Queue,
    numbers: Numbers = None,
    group: OnlyGroup = None,
    partition: OnlyPartition = None,
    everything: All = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Push dead letters to their queue again.

    They are appended to the end of their partitions, for all groups of the queue.
    """
    _check_choice(numbers, group, partition, everything)
    with connect(url, token) as client:
        letters = client.dead_letters
        if numbers:
            replayed = len(letters.replay(queue, numbers))
        else:
            replayed = letters.replay_all(queue, group=group, partition=partition)
    output.print_done({"replayed": replayed}, f"{replayed} replayed", as_json=as_json)


@app.command()
def delete(
    queue: Queue,
    numbers: Numbers = None,
    group: OnlyGroup = None,
    partition: OnlyPartition = None,
    everything: All = False,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Delete dead letters."""
    _check_choice(numbers, group, partition, everything)
    confirm(f"Permanently delete these dead letters of queue {queue!r}?", yes=yes)
    with connect(url, token) as client:
        letters = client.dead_letters
        if numbers:
            letters.delete(queue, numbers)
            deleted = len(numbers)
        else:
            deleted = letters.delete_all(queue, group=group, partition=partition)
    output.print_done({"deleted": deleted}, f"{deleted} deleted", as_json=as_json)


def _check_choice(
    numbers: list[int] | None, group: str | None, partition: str | None, everything: bool
) -> None:
    """Require exactly one choice: nothing must not mean everything."""
    choices = [bool(numbers), bool(group or partition), everything]
    if sum(choices) != 1:
        raise typer.BadParameter("give either NUMBERS, or --group or --partition, or --all")
