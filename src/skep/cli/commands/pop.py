"""``skep pop`` and ``skep ack``: consume by hand."""

from typing import Annotated

import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.exit_code import NOTHING_FOUND, print_error
from skep.cli.json_view import delivery_json, settlement_json
from skep.cli.options import Json, Queue
from skep.model.message import Delivery, Message
from skep.model.name import QUEUE_MODE
from skep.model.operation import Settlement, Status

Group = Annotated[
    str | None,
    typer.Option("--group", help="Consumer group. Default: queue mode, without a group."),
]
Batch = Annotated[int, typer.Option(min=1, help="Maximum number of messages.")]
Partitions = Annotated[int, typer.Option(min=1, help="Maximum number of partitions.")]
Wait = Annotated[float, typer.Option(min=0, help="Seconds to wait for a message.")]
Partition = Annotated[str | None, typer.Option(help="Only this partition.")]
AutoAck = Annotated[
    bool, typer.Option("--auto-ack", help="Acknowledge at once: messages are not redelivered.")
]
Failed = Annotated[
    bool, typer.Option("--failed", help="Report failure: messages are retried or dead-lettered.")
]
Error = Annotated[str, typer.Option(help="Reason of the failure.")]
Retry = Annotated[
    bool, typer.Option("--retry", help="Release for redelivery without counting a failure.")
]

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
    """Lease and print the next messages of a queue.

    Messages are redelivered when the lease expires, unless it is settled with skep ack. If there
    is no message, the exit code is 4.
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
        print_error(f"no message to pop from queue {queue!r}; --wait waits for one")
        raise typer.Exit(NOTHING_FOUND)
    if as_json:
        output.print_document(delivery_json(delivery))
    else:
        _print_delivery(delivery)


def ack(
    lease: Annotated[str, typer.Argument(help="Lease id, as printed by skep pop.")],
    failed: Failed = False,
    error: Error = "",
    retry: Retry = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Settle all messages of a lease.

    Messages are acknowledged, unless --failed or --retry is given.
    """
    if failed and retry:
        raise typer.BadParameter("--failed and --retry are mutually exclusive")
    if error and not failed:
        raise typer.BadParameter("--error requires --failed")
    status: Status = "failed" if failed else "retry" if retry else "completed"
    with connect(url, token) as client:
        settlement = client.settle_all(lease, status, error=error)
    output.print_done(settlement_json(settlement), _words(settlement, status), as_json=as_json)


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
        output.print_text(f"{delivery.truncated} older messages were deleted before they were read")
    if delivery.lease_id is not None:
        expiry = output.to_cell(delivery.expires_at)
        output.print_text(f"lease {delivery.lease_id} expires at {expiry}")


def _words(settlement: Settlement, status: Status) -> str:
    words = []
    if settlement.retry_at is not None:
        words.append(f"retry at {output.to_cell(settlement.retry_at)}")
    if settlement.dead_letters:
        words.append(f"{settlement.dead_letters} dead-lettered")
    if status == "completed":
        words.append(f"{settlement.completed} acknowledged")
    if status == "retry":
        words.append("released")
    return ", ".join(words)
