"""``skep group``: how far consumer groups are, and moving them."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Json, Token, Url
from skep.cli.operate import Operator, path
from skep.errors import GroupNotFound
from skep.wire.group import DeletedGroup, GroupQueue, GroupRow, SeekBody, Sought, SoughtPartition

app = typer.Typer(no_args_is_help=True)

Queue = Annotated[str, typer.Argument(help="The queue.")]
Group = Annotated[str, typer.Argument(help="The consumer group.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
To = Annotated[
    str, typer.Option("--to", help="beginning, end, an offset, or a time such as 2030-01-02T03:04.")
]


@app.command("list")
def list_groups(
    queue: Annotated[str | None, typer.Option(help="Only the groups of this queue.")] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the groups of every queue, and how far each is behind."""
    with Operator(url, token) as operator:
        found = operator.get(path("consumer-groups"), list[GroupRow])
    rows = [row for row in found if queue in (None, row.queue_name)]
    if as_json:
        output.print_document(rows)
        return
    output.print_table(
        ("queue", "group", "backlog", "partitions behind", "oldest waits (s)", "leases"),
        [
            (
                *(row.queue_name, row.name, row.total_lag),
                *(row.partitions_with_lag, round(row.max_time_lag, 1), row.members),
            )
            for row in rows
        ],
    )


@app.command()
def lag(
    queue: Queue,
    group: Group,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show where a group is in each partition of a queue."""
    with Operator(url, token) as operator:
        found = operator.get(path("consumer-groups", group), dict[str, GroupQueue])
    if queue not in found:
        raise GroupNotFound(queue, group)
    partitions = found[queue].partitions
    if as_json:
        output.print_document(partitions)
        return
    output.print_table(
        ("partition", "cursor", "end", "backlog", "leased", "last consumed at"),
        [
            (
                *(each.partition, each.offset, each.end, each.offset_lag),
                *(each.lease_active, each.last_consumed_at),
            )
            for each in partitions
        ],
    )


@app.command()
def seek(
    queue: Queue,
    group: Group,
    to: To,
    partition: Annotated[str | None, typer.Option(help="Only in this partition.")] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Move a group to another place in a queue; its leases end."""
    body = _target(to)
    base = ("consumer-groups", group, "queues", queue)
    with Operator(url, token) as operator:
        if partition is None:
            moved = operator.post(path(*base, "seek"), body, Sought).partitions_updated
        else:
            place = path(*base, "partitions", partition, "seek")
            moved = int(operator.post(place, body, SoughtPartition).updated)
    if as_json:
        output.print_document({"partitions": moved})
    else:
        output.print_text(f"moved in {moved} partitions")


@app.command()
def delete(
    queue: Queue,
    group: Group,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Forget a group: its next pop is a first contact with the queue."""
    if not yes:
        typer.confirm(f"Forget how far {group!r} is in {queue!r}?", abort=True, err=True)
    with Operator(url, token) as operator:
        done = operator.delete(path("consumer-groups", group, "queues", queue), DeletedGroup)
    if not done.metadata_deleted:
        raise GroupNotFound(queue, group)
    if as_json:
        output.print_document({"deleted": group})
    else:
        output.print_text(f"{group} is forgotten")


def _target(to: str) -> SeekBody:
    if to in ("beginning", "end"):
        return SeekBody(to_beginning=to == "beginning", to_end=to == "end")
    if to.isdecimal():
        return SeekBody(offset=int(to))
    try:
        moment = datetime.fromisoformat(to)
    except ValueError:
        raise typer.BadParameter(
            f"--to {to!r} is not beginning, end, an offset or a time"
        ) from None
    return SeekBody(timestamp=moment if moment.tzinfo else moment.replace(tzinfo=UTC))
