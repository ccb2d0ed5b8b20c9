"""``skep queue``: create, show, configure, clear and delete queues."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.json_view import partition_json, queue_json, removal_json, summary_json
from skep.cli.options import Count, Json, OnlyPartition, Queue, Yes, confirm
from skep.cli.queue_options import given, with_options
from skep.errors import Conflict, QueueNotFound
from skep.model.name import to_datetime
from skep.model.stats import PartitionSummary, QueueSummary

app = typer.Typer(no_args_is_help=True)

Namespace = Annotated[str | None, typer.Option(help="First label of the queue.")]
Task = Annotated[str | None, typer.Option(help="Second label of the queue.")]


@app.command()
@with_options
def create(
    queue: Queue,
    namespace: Namespace = None,
    task: Task = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
    **options: Any,
) -> None:
    """Create a queue. Omitted options get their defaults.

    The options are explained in docs/reference/queue-options.md.
    """
    with connect(url, token) as client:
        try:
            client.queues.get(queue)
        except QueueNotFound:
            created = client.queues.configure(
                queue, namespace=namespace, task=task, **given(options)
            )
        else:
            raise Conflict(f"queue {queue!r} already exists; change it with skep queue configure")
    output.print_done(queue_json(created), f"created {queue}", as_json=as_json)


@app.command()
@with_options
def configure(
    queue: Queue,
    namespace: Namespace = None,
    task: Task = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
    **options: Any,
) -> None:
    """Change options of a queue. Omitted options keep their values."""
    with connect(url, token) as client:
        current = client.queues.get(queue)
        configured = client.queues.configure(
            queue,
            namespace=current.namespace if namespace is None else namespace,
            task=current.task if task is None else task,
            **msgspec.structs.asdict(current.options) | given(options),
        )
    output.print_done(queue_json(configured), f"configured {queue}", as_json=as_json)


@app.command("list")
def list_queues(
    namespace: Annotated[
        str | None, typer.Option(help="Only queues with this first label.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="Only queues with this second label.")] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the queues with their message counts by status."""
    with connect(url, token) as client:
        summaries = client.queues.summaries(namespace=namespace, task=task)
    output.print_list(
        [summary_json(summary) for summary in summaries],
        ("queue", "namespace", "task", "partitions", "pending", "leased", "dead letters", "total"),
        [_to_row(summary) for summary in summaries],
        as_json=as_json,
        empty="no matching queues; create one with skep queue create or skep push",
    )


def _to_row(summary: QueueSummary) -> tuple[object, ...]:
    queue, counts = summary.queue, summary.counts
    return (
        *(queue.name, queue.namespace, queue.task, summary.partitions),
        *(counts.pending, counts.processing, counts.dead_letters, counts.total),
    )


@app.command()
def show(queue: Queue, url: Url = DEFAULT_URL, token: Token = None, as_json: Json = False) -> None:
    """Show a queue with its options and partitions."""
    with connect(url, token) as client:
        summary = client.queues.summary(queue)
        partitions = client.queues.partition_summaries(queue)
    if as_json:
        shown = [partition_json(partition) for partition in partitions]
        output.print_document(summary_json(summary) | {"partitions": shown})
    else:
        _print_queue(summary, partitions)


def _print_queue(summary: QueueSummary, partitions: Sequence[PartitionSummary]) -> None:
    queue = summary.queue
    options = msgspec.structs.asdict(queue.options)
    output.print_fields(
        {
            "queue": queue.name,
            "namespace": queue.namespace,
            "task": queue.task,
            "created at": to_datetime(queue.created_at),
            "groups": summary.groups,
            "dead letters": summary.counts.dead_letters,
            **{f"--{name.replace('_', '-')}": value for name, value in options.items()},
        }
    )
    rows = [
        (
            partition.name,
            partition.counts.pending,
            partition.counts.processing,
            partition.counts.total,
        )
        for partition in partitions
    ]
    output.print_table(("partition", "pending", "leased", "total"), rows)


@app.command()
def removals(
    queue: Queue,
    count: Count = 100,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show deletions of the last 90 days, newest first."""
    with connect(url, token) as client:
        removed = client.queues.removals(queue, limit=count)
        names = {partition.number: partition.name for partition in client.queues.partitions(queue)}
    output.print_list(
        [removal_json(removal, names.get(removal.partition, "-")) for removal in removed],
        ("at", "partition", "rule", "messages"),
        [
            (
                *(to_datetime(removal.executed_at), names.get(removal.partition)),
                *(removal.kind, removal.messages),
            )
            for removal in removed
        ],
        as_json=as_json,
        empty=f"no messages were deleted from queue {queue!r}",
    )


@app.command()
def clear(
    queue: Queue,
    partition: OnlyPartition = None,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Permanently delete all messages of a queue.

    Offsets and groups stay.
    """
    target = f"queue {queue!r}" + ("" if partition is None else f" partition {partition!r}")
    confirm(f"Permanently delete all messages of {target}?", yes=yes)
    with connect(url, token) as client:
        removed = client.queues.clear(queue, partition=partition)
    output.print_done({"removed": removed}, f"{removed} deleted", as_json=as_json)


@app.command()
def delete(
    queue: Queue,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Permanently delete a queue and all its data.

    That includes messages, groups, dead letters and traces.
    """
    confirm(f"Permanently delete queue {queue!r} with all its data?", yes=yes)
    with connect(url, token) as client:
        client.queues.delete(queue)
    output.print_done({"deleted": queue}, f"deleted {queue}", as_json=as_json)
