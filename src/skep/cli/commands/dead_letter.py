"""``skep dead-letter``: what groups gave up on."""

from typing import Annotated

import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.json_view import shown_letter
from skep.cli.options import Count, Json, OnlyGroup, OnlyPartition, Queue, Yes, confirm

app = typer.Typer(no_args_is_help=True)

Numbers = Annotated[list[int] | None, typer.Argument(help="Their numbers.")]
All = Annotated[bool, typer.Option("--all", help="All of the queue.")]


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
    """List the dead letters of a queue, the newest first."""
    with connect(url, token) as client:
        letters = client.dead_letters.list(queue, group=group, partition=partition, limit=count)
        total = len(letters)
        if total == count and not as_json:
            total = client.dead_letters.count(queue, group=group, partition=partition)
    output.print_list(
        [shown_letter(letter) for letter in letters],
        ("number", "group", "partition", "offset", "failed at", "error"),
        [
            (each.number, each.group, each.partition, each.offset, each.failed_at, each.error)
            for each in letters
        ],
        as_json=as_json,
        empty=f"there are no such dead letters in {queue!r}",
    )
    if total > len(letters):
        output.note(f"{total} in all; --count shows more")


@app.command()
def show(
    queue: Queue,
    number: Annotated[int, typer.Argument(help="Its number.")],
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show one dead letter with its payload."""
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
    output.print_one(shown_letter(letter), fields, as_json=as_json)


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
    """Send dead letters back to the end of their partitions, for every group of the queue."""
    _check_choice(numbers, group, partition, everything)
    with connect(url, token) as client:
        letters = client.dead_letters
        if numbers:
            done = len(letters.replay(queue, numbers))
        else:
            done = letters.replay_all(queue, group=group, partition=partition)
    output.print_done({"replayed": done}, f"{done} sent back", as_json=as_json)


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
    """Throw dead letters away."""
    _check_choice(numbers, group, partition, everything)
    confirm(f"Throw these dead letters of {queue!r} away for good?", yes=yes)
    with connect(url, token) as client:
        letters = client.dead_letters
        if numbers:
            letters.delete(queue, numbers)
            done = len(numbers)
        else:
            done = letters.delete_all(queue, group=group, partition=partition)
    output.print_done({"deleted": done}, f"{done} deleted", as_json=as_json)


def _check_choice(
    numbers: list[int] | None, group: str | None, partition: str | None, everything: bool
) -> None:
    """To say nothing is not to say all, and to say two things is to say neither."""
    ways = [bool(numbers), bool(group or partition), everything]
    if sum(ways) != 1:
        raise typer.BadParameter("say which: NUMBERS, or --group and --partition, or --all")
