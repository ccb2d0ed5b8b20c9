"""``skep queue``: making, looking at, emptying and deleting queues."""

import inspect
from typing import Annotated, Any

import msgspec
import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Json, Token, Url
from skep.cli.operate import Operator, path
from skep.errors import Conflict, QueueNotFound
from skep.model.queue import QueueOptions, options_from
from skep.wire.queue import Cleared, ConfigureBody, Configured, DeletedQueue, WireOptions
from skep.wire.resource import QueueDetail, QueueRow, QueueRows

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The queue.")]
Namespace = Annotated[str | None, typer.Option(help="Its first label.")]
Task = Annotated[str | None, typer.Option(help="Its second label.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
PAGE = 1000


def create(
    queue: Name,
    namespace: Namespace = None,
    task: Task = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
    **options: Any,
) -> None:
    """Make a queue. What is left out has its default; docs/concepts.md explains the options."""
    with Operator(url, token) as operator:
        if _find(operator, queue) is not None:
            raise Conflict(f"there is a queue {queue!r} already; see skep queue configure")
        given = {name: value for name, value in options.items() if value is not None}
        configured = _configure(operator, queue, namespace, task, given)
    _print_configured(configured, as_json=as_json)


def configure(
    queue: Name,
    namespace: Namespace = None,
    task: Task = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
    **options: Any,
) -> None:
    """Change options of a queue. What is left out stays as it is."""
    with Operator(url, token) as operator:
        known = _get(operator, queue)
        given = {name: value for name, value in options.items() if value is not None}
        configured = _configure(
            operator,
            queue,
            known.namespace if namespace is None else namespace,
            known.task if task is None else task,
            msgspec.structs.asdict(known.options) | given,
        )
    _print_configured(configured, as_json=as_json)


def _with_options(command: Any) -> Any:
    """Give a command an option for each of a queue's options."""
    signature = inspect.signature(command)
    fixed = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    generated = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                type(field.default) | None,
                typer.Option(help=f"{field.default}, unless you say so.", show_default=False),
            ],
        )
        for field in msgspec.structs.fields(QueueOptions)
    ]
    command.__signature__ = signature.replace(parameters=[*fixed, *generated])
    command.__annotations__ |= {each.name: each.annotation for each in generated}
    return command


app.command()(_with_options(create))
app.command()(_with_options(configure))


@app.command("list")
def list_queues(
    namespace: Namespace = None,
    task: Task = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """List the queues, and what became of their messages."""
    rows: list[QueueRow] = []
    with Operator(url, token) as operator:
        total = 1
        while len(rows) < total:
            found = operator.get(
                *(path("resources", "queues"), QueueRows),
                namespace=namespace,
                task=task,
                offset=len(rows),
                limit=PAGE,
            )
            rows += found.queues
            total = found.total if found.queues else 0
    if as_json:
        output.print_document(rows)
        return
    output.print_table(
        ("queue", "namespace", "task", "partitions", "pending", "leased", "dead letters", "total"),
        [_to_row(row) for row in rows],
    )


def _to_row(row: QueueRow) -> tuple[object, ...]:
    counts = row.messages
    return (
        *(row.name, row.namespace, row.task, row.partitions),
        *(counts.pending, counts.processing, counts.dead_letter, counts.total),
    )


@app.command()
def show(queue: Name, url: Url = DEFAULT_URL, token: Token = None, as_json: Json = False) -> None:
    """Show one queue with its options and its partitions."""
    with Operator(url, token) as operator:
        detail = _get(operator, queue)
    if as_json:
        output.print_document(detail)
        return
    output.print_fields(
        {
            "queue": detail.name,
            "namespace": detail.namespace,
            "task": detail.task,
            "created at": detail.created_at,
            **{f"--{name.replace('_', '-')}": value for name, value in _asdict(detail.options)},
        }
    )
    rows = [
        (each.name, each.stats.pending, each.stats.processing, each.stats.total)
        for each in detail.partitions
    ]
    output.print_table(("partition", "pending", "leased", "total"), rows)


@app.command()
def clear(
    queue: Name,
    partition: Annotated[str | None, typer.Option(help="Only this partition.")] = None,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Remove all messages of a queue; its offsets and groups stay."""
    if not yes:
        typer.confirm(f"Remove all messages of {queue!r} for good?", abort=True, err=True)
    with Operator(url, token) as operator:
        done = operator.delete(path("queues", queue, "clear"), Cleared, partition=partition)
    if as_json:
        output.print_document({"removed": done.count})
    else:
        output.print_text(f"{done.count} removed")


@app.command()
def delete(
    queue: Name,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Delete a queue with its messages, groups, dead letters and traces."""
    if not yes:
        typer.confirm(f"Delete {queue!r} with all it holds, for good?", abort=True, err=True)
    with Operator(url, token) as operator:
        done = operator.delete(path("resources", "queues", queue), DeletedQueue)
    if not done.existed:
        raise QueueNotFound(queue)
    if as_json:
        output.print_document({"deleted": queue})
    else:
        output.print_text(f"{queue} is deleted")


def _get(operator: Operator, queue: str) -> QueueDetail:
    return operator.get(path("resources", "queues", queue), QueueDetail, limit=PAGE)


def _find(operator: Operator, queue: str) -> QueueDetail | None:
    try:
        return _get(operator, queue)
    except QueueNotFound:
        return None


def _configure(
    operator: Operator,
    queue: str,
    namespace: str | None,
    task: str | None,
    options: dict[str, Any],
) -> Configured:
    options_from(options)
    body = ConfigureBody(
        queue=queue, namespace=namespace, task=task, options=WireOptions(**options)
    )
    return operator.post(path("configure"), body, Configured)


def _print_configured(configured: Configured, *, as_json: bool) -> None:
    if as_json:
        output.print_document(configured)
    else:
        output.print_text(f"{configured.queue} is configured")


def _asdict(options: WireOptions) -> list[tuple[str, object]]:
    return list(msgspec.structs.asdict(options).items())
