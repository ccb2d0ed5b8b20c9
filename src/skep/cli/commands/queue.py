"""``skep queue``: making, looking at, emptying and deleting queues."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.json_view import shown_partition, shown_queue, shown_removal, shown_summary
from skep.cli.options import Count, Json, OnlyPartition, Queue, Yes, confirm
from skep.cli.queue_options import given, with_options
from skep.errors import Conflict, QueueNotFound
from skep.model.name import to_datetime
from skep.model.stats import PartitionSummary, QueueSummary

app = typer.Typer(no_args_is_help=True)

Namespace = Annotated[str | None, typer.Option(help="Its first label.")]
Task = Annotated[str | None, typer.Option(help="Its second label.")]


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
    """Create a queue. An option that is left out gets its default.

    The options are explained in docs/reference/queue-options.md.
    """
    with connect(url, token) as client:
        try:
            client.queues.get(queue)
        except QueueNotFound:
            made = client.queues.configure(queue, namespace=namespace, task=task, **given(options))
        else:
            raise Conflict(f"there is a queue {queue!r} already; see skep queue configure")
    output.print_done(shown_queue(made), f"{queue} is configured", as_json=as_json)


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
    """Change options of a queue. What is left out stays as it is."""
    with connect(url, token) as client:
        known = client.queues.get(queue)
        made = client.queues.configure(
            queue,
            namespace=known.namespace if namespace is None else namespace,
            task=known.task if task is None else task,
            **msgspec.structs.asdict(known.options) | given(options),
        )
    output.print_done(shown_queue(made), f"{queue} is configured", as_json=as_json)


@app.command("list")
def list_queues(
    namespace: Annotated[str | None, typer.Option(help="Only with this first label.")] = None,
    task: Annotated[str | None, typer.Option(help="Only with this second label.")] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the queues, and what became of their messages."""
    with connect(url, token) as client:
        summaries = client.queues.summaries(namespace=namespace, task=task)
    output.print_list(
        [shown_summary(summary) for summary in summaries],
        ("queue", "namespace", "task", "partitions", "pending", "leased", "dead letters", "total"),
        [_to_row(summary) for summary in summaries],
        as_json=as_json,
        empty="there are no such queues; skep queue create makes one, and so does skep push",
    )


def _to_row(summary: QueueSummary) -> tuple[object, ...]:
    queue, counts = summary.queue, summary.counts
    return (
        *(queue.name, queue.namespace, queue.task, summary.partitions),
        *(counts.pending, counts.processing, counts.dead_letters, counts.total),
    )


@app.command()
def show(queue: Queue, url: Url = DEFAULT_URL, token: Token = None, as_json: Json = False) -> None:
    """Show one queue with its options and its partitions."""
    with connect(url, token) as client:
        summary = client.queues.summary(queue)
        partitions = client.queues.partition_summaries(queue)
    if as_json:
        shown = [shown_partition(each) for each in partitions]
        output.print_document(shown_summary(summary) | {"partitions": shown})
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
        (each.name, each.counts.pending, each.counts.processing, each.counts.total)
        for each in partitions
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
    """Show what left a queue in the last 90 days, and by which rule, the newest first."""
    with connect(url, token) as client:
        found = client.queues.removals(queue, limit=count)
        names = {each.number: each.name for each in client.queues.partitions(queue)}
    output.print_list(
        [shown_removal(each, names.get(each.partition, "-")) for each in found],
        ("at", "partition", "rule", "messages"),
        [
            (to_datetime(each.executed_at), names.get(each.partition), each.kind, each.messages)
            for each in found
        ],
        as_json=as_json,
        empty=f"nothing has left {queue!r}",
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
    """Remove all messages of a queue; its offsets and groups stay."""
    where = queue if partition is None else f"{queue}/{partition}"
    confirm(f"Remove all messages of {where!r} for good?", yes=yes)
    with connect(url, token) as client:
        removed = client.queues.clear(queue, partition=partition)
    output.print_done({"removed": removed}, f"{removed} removed", as_json=as_json)


@app.command()
def delete(
    queue: Queue,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Delete a queue with its messages, groups, dead letters and traces."""
    confirm(f"Delete {queue!r} with all it holds, for good?", yes=yes)
    with connect(url, token) as client:
        client.queues.delete(queue)
    output.print_done({"deleted": queue}, f"{queue} is deleted", as_json=as_json)
