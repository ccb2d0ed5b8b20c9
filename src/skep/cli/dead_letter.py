"""``skep dead-letter``: what groups gave up on."""

from typing import Annotated

import msgspec
import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Json, Token, Url
from skep.cli.operate import Operator, path
from skep.wire.dead_letter import (
    DeletedLetters,
    LetterChoice,
    Letters,
    Replayed,
    WireLetter,
    check_choice,
)

app = typer.Typer(no_args_is_help=True)

Queue = Annotated[str, typer.Argument(help="The queue.")]
Numbers = Annotated[list[int] | None, typer.Argument(help="Their numbers.")]
Group = Annotated[str | None, typer.Option(help="Those of this group.")]
Partition = Annotated[str | None, typer.Option(help="Those of this partition.")]
All = Annotated[bool, typer.Option("--all", help="All of the queue.")]
Count = Annotated[int, typer.Option("--count", "-n", min=1, max=1000, help="How many at most.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@app.command("list")
def list_letters(
    queue: Queue,
    group: Group = None,
    partition: Partition = None,
    count: Count = 100,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the dead letters of a queue, the newest first."""
    with Operator(url, token) as operator:
        found = operator.get(
            *(path("dlq"), Letters),
            queue=queue,
            consumerGroup=group,
            partition=partition,
            limit=count,
        )
    if as_json:
        output.print_document(found.messages)
        return
    output.print_table(
        ("number", "group", "partition", "offset", "failed at", "error"),
        [
            (
                *(letter.number, letter.consumer_group, letter.partition, letter.offset),
                *(letter.failed_at, letter.error_message),
            )
            for letter in found.messages
        ],
    )
    if found.total > len(found.messages):
        output.print_text(f"{found.total} in all; --count shows more")


@app.command()
def show(
    queue: Queue,
    number: Annotated[int, typer.Argument(help="Its number.")],
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show one dead letter with its payload."""
    with Operator(url, token) as operator:
        letter = operator.get(path("dlq", queue, number), WireLetter)
    if as_json:
        output.print_document(letter)
        return
    output.print_fields(
        {
            "number": letter.number,
            "group": letter.consumer_group,
            "partition": letter.partition,
            "offset": letter.offset,
            "transaction id": letter.transaction_id,
            "trace id": letter.trace_id,
            "pushed at": letter.created_at,
            "failed at": letter.failed_at,
            "error": letter.error_message,
            "payload": None if letter.data is msgspec.UNSET else bytes(letter.data),
        }
    )


@app.command()
def replay(
    queue: Queue,
    numbers: Numbers = None,
    group: Group = None,
    partition: Partition = None,
    everything: All = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Send dead letters back to the end of their partitions, for every group of the queue."""
    choice = _choice(numbers, group, partition, everything)
    with Operator(url, token) as operator:
        done = operator.post(path("dlq", queue, "replay"), choice, Replayed)
    if as_json:
        output.print_document({"replayed": done.replayed})
    else:
        output.print_text(f"{done.replayed} sent back")


@app.command()
def delete(
    queue: Queue,
    numbers: Numbers = None,
    group: Group = None,
    partition: Partition = None,
    everything: All = False,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Throw dead letters away."""
    choice = _choice(numbers, group, partition, everything)
    if not yes:
        typer.confirm(f"Throw these dead letters of {queue!r} away for good?", abort=True, err=True)
    with Operator(url, token) as operator:
        done = operator.delete(
            *(path("dlq", queue), DeletedLetters),
            numbers=",".join(map(str, choice.numbers)) if choice.numbers else None,
            consumerGroup=group,
            partition=partition,
            all=everything or None,
        )
    if as_json:
        output.print_document({"deleted": done.deleted})
    else:
        output.print_text(f"{done.deleted} deleted")


def _choice(
    numbers: list[int] | None, group: str | None, partition: str | None, everything: bool
) -> LetterChoice:
    """Which are meant; to say nothing is not to say all."""
    if not (numbers or group or partition or everything):
        raise typer.BadParameter("say which: NUMBERS, --group, --partition or --all")
    return check_choice(
        LetterChoice(
            numbers=numbers or None, consumer_group=group, partition=partition, all=everything
        )
    )
