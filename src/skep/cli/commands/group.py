"""``skep group``: lag and cursors of consumer groups."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.options import Group, Json, OnlyPartition, Queue, Yes, confirm
from skep.model.stats import GroupLag
from skep.wire.admin.group import Target

app = typer.Typer(no_args_is_help=True)

PLACES: dict[str, Target] = {"beginning": "beginning", "end": "end"}
To = Annotated[
    str,
    typer.Option(
        "--to", help="Target: beginning, end, an offset, or a time (UTC) such as 2030-01-02T03:04."
    ),
]


@app.command("list")
def list_groups(
    queue: Annotated[str | None, typer.Option(help="Only groups of this queue.")] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the consumer groups with their lag."""
    with connect(url, token) as client:
        groups = client.groups.list(queue)
    output.print_list(
        groups,
        ("queue", "group", "backlog", "partitions behind", "oldest since", "consumers"),
        [
            (
                *(lag.queue, lag.group, lag.backlog, _partitions_behind(lag)),
                *(lag.oldest_at, lag.members),
            )
            for lag in groups
        ],
        as_json=as_json,
        empty="no groups; a group is created by its first pop",
    )


def _partitions_behind(group: GroupLag) -> int | None:
    """Return None for a reader group: its lag is not counted by partition."""
    return group.partitions_with_backlog or (None if group.backlog else 0)


@app.command()
def lag(
    queue: Queue,
    group: Group,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show the lag of a group by partition.

    For a reader group, the lag is shown by lane.
    """
    with connect(url, token) as client:
        partitions = client.groups.lag(queue, group)
        lanes = client.groups.lanes(queue, group) if not partitions else ()
    if lanes:
        output.print_list(
            lanes,
            ("lane", "position", "head", "backlog", "oldest at"),
            [(each.lane, each.position, each.head, each.backlog, each.oldest_at) for each in lanes],
            as_json=as_json,
            empty="",
        )
        return
    output.print_list(
        partitions,
        ("partition", "cursor", "end", "backlog", "leased", "last consumed at"),
        [
            (
                *(lag.partition, lag.cursor, lag.end, lag.backlog),
                *(lag.leased, lag.last_consumed_at),
            )
            for lag in partitions
        ],
        as_json=as_json,
        empty=f"queue {queue!r} has no partitions",
    )


@app.command()
def seek(
    queue: Queue,
    group: Group,
    to: To,
    partition: OnlyPartition = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Move the cursors of a group in a queue; its leases end."""
    target = _target(to)
    with connect(url, token) as client:
        moved = client.groups.seek(queue, group, target, partition=partition)
    _print_moved(moved, as_json=as_json)


@app.command()
def restart(
    queue: Queue,
    group: Group,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Move a group back to where it started in a queue; its leases end."""
    with connect(url, token) as client:
        moved = client.groups.restart(queue, group)
    _print_moved(moved, as_json=as_json)


@app.command()
def delete(
    queue: Queue,
    group: Group,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Delete a group from a queue: its next pop subscribes again."""
    confirm(f"Delete group {group!r} and its cursors in queue {queue!r}?", yes=yes)
    with connect(url, token) as client:
        client.groups.delete(queue, group)
    output.print_done({"deleted": group}, f"deleted group {group}", as_json=as_json)


def _print_moved(partitions: int, *, as_json: bool) -> None:
    words = f"moved in {partitions} partition{'' if partitions == 1 else 's'}"
    output.print_done({"partitions": partitions}, words, as_json=as_json)


def _target(to: str) -> Target:
    if to in PLACES:
        return PLACES[to]
    if to.isdecimal():
        return int(to)
    try:
        moment = datetime.fromisoformat(to)
    except ValueError:
        raise typer.BadParameter(
            f"--to {to!r} is not beginning, end, an offset or a time"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
