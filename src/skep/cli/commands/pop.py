"""``skep pop`` and ``skep ack``: consuming by hand."""

from typing import Annotated

import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.exit_code import NOTHING_FOUND, complain
from skep.cli.json_view import shown_delivery, shown_settlement
from skep.cli.options import Json, Queue
from skep.model.message import Delivery, Message
from skep.model.name import QUEUE_MODE
from skep.model.operation import Settlement, Status

Group = Annotated[
    str | None, typer.Option("--group", help="The consumer group; without one, queue mode.")
]
Batch = Annotated[int, typer.Option(min=1, help="How many messages at most.")]
Partitions = Annotated[int, typer.Option(min=1, help="From how many partitions at most.")]
Wait = Annotated[float, typer.Option(min=0, help="Seconds to wait for a message.")]
Partition = Annotated[str | None, typer.Option(help="From this partition only.")]
AutoAck = Annotated[
    bool, typer.Option("--auto-ack", help="Acknowledge at once: what is lost then is lost.")
]
Failed = Annotated[bool, typer.Option("--failed", help="They failed: retry later, or give up.")]
Error = Annotated[str, typer.Option(help="Why they failed.")]
Retry = Annotated[bool, typer.Option("--retry", help="Give them back without counting a failure.")]

COLUMNS = ("partition", "offset", "transaction id", "pushed at", "payload")


def pop(
    queue: Queue,
    group: Group = None,
    batch: Batch = 1,
    wait: Wait = 0,
    partition: Partition = None,
    auto_ack: AutoAck = False,
    partitions: Partitions = 1,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Lease the next messages of a queue, and show them.

    They come again when the lease is over, unless you settle it: see skep ack. If there is
    nothing, the exit code is 4.
    """
    with connect(url, token) as client:
        delivery = client.pop(
            queue,
            group=QUEUE_MODE if group is None else group,
            partition=partition,
            batch=batch,
            partitions=partitions,
            wait=wait,
            auto_ack=auto_ack,
        )
    if delivery is None:
        complain(f"there is nothing to pop from {queue!r}; --wait waits for it")
        raise typer.Exit(NOTHING_FOUND)
    if as_json:
        output.print_document(shown_delivery(delivery))
    else:
        _print_delivery(delivery)


def ack(
    lease: Annotated[str, typer.Argument(help="The lease id that skep pop shows.")],
    failed: Failed = False,
    error: Error = "",
    retry: Retry = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Say what became of all messages of a lease.

    They are done, unless you say otherwise.
    """
    if failed and retry:
        raise typer.BadParameter("--failed and --retry exclude each other")
    if error and not failed:
        raise typer.BadParameter("--error goes with --failed")
    status: Status = "failed" if failed else "retry" if retry else "completed"
    with connect(url, token) as client:
        settlement = client.settle_all(lease, status, error=error)
    output.print_done(shown_settlement(settlement), _words(settlement, status), as_json=as_json)


def to_row(message: Message) -> tuple[object, ...]:
    return (
        message.partition,
        message.offset,
        message.transaction_id,
        message.created_at,
        message.payload,
    )


def _print_delivery(delivery: Delivery) -> None:
    output.print_table(COLUMNS, [to_row(message) for message in delivery.messages])
    if delivery.truncated:
        output.print_text(f"{delivery.truncated} older ones were removed before they were read")
    if delivery.lease_id is not None:
        until = output.to_cell(delivery.expires_at)
        output.print_text(f"lease {delivery.lease_id} until {until}")


def _words(settlement: Settlement, status: Status) -> str:
    words = []
    if settlement.retry_at is not None:
        words.append(f"they come again at {output.to_cell(settlement.retry_at)}")
    if settlement.dead_letters:
        words.append(f"{settlement.dead_letters} are dead letters now")
    if status == "completed":
        words.append(f"{settlement.completed} acknowledged")
    if status == "retry":
        words.append("given back")
    return ", ".join(words)
