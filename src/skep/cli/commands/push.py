"""``skep push``: messages from an argument, a file or a pipe."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect, connect_async
from skep.cli.json_lines import Defaults, Lines, check_payload
from skep.cli.options import Json
from skep.client.async_client import AsyncClient
from skep.client.produce.async_producer import AsyncProducer
from skep.errors import Invalid, Unavailable
from skep.model.message import Draft, Receipt
from skep.model.name import DEFAULT_PARTITION

Payload = Annotated[
    str | None, typer.Argument(help="One payload, as JSON. Default: read lines from stdin.")
]
Partition = Annotated[str, typer.Option(help="Partition of messages that set none.")]
TransactionId = Annotated[
    str | None, typer.Option(help="Transaction id of PAYLOAD, for deduplication.")
]
TraceId = Annotated[UUID | None, typer.Option(help="Trace id of the messages.")]
File = Annotated[
    Path | None,
    typer.Option(
        "--file", exists=True, dir_okay=False, help="Read lines from this file instead of stdin."
    ),
]
IsEnvelope = Annotated[
    bool,
    typer.Option(
        "--envelope", help="Lines are objects with payload, partition, transactionId, ..."
    ),
]


@dataclass(slots=True)
class PushCounts:
    """The outcomes of the drafts that were sent."""

    stored: int = 0
    duplicates: int = 0
    buffered: int = 0
    error: Exception | None = None

    def settle(self, receipt: asyncio.Future[Receipt]) -> None:
        """Count a draft that is stored or has failed; keep the first error."""
        if receipt.cancelled():
            return
        error = receipt.exception()
        if error is None:
            self.add(receipt.result())
        elif isinstance(error, Exception) and self.error is None:
            self.error = error

    def add(self, receipt: Receipt) -> None:
        if receipt.duplicate:
            self.duplicates += 1
        elif receipt.offset < 0:
            self.buffered += 1
        else:
            self.stored += 1

    def __str__(self) -> str:
        buffered = f", {self.buffered} buffered until maintenance ends" if self.buffered else ""
        return f"{self.stored} stored, {self.duplicates} duplicates{buffered}"


def push(
    queue: Annotated[str, typer.Argument(help="Name of the queue; created if it does not exist.")],
    payload: Payload = None,
    partition: Partition = DEFAULT_PARTITION,
    transaction_id: TransactionId = None,
    trace_id: TraceId = None,
    file: File = None,
    envelope: IsEnvelope = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Push messages to a queue.

    PAYLOAD is one message. Without it, every line of --file or stdin is one, as JSON. An invalid
    line ends the command: messages before it are stored, messages after it are not sent.
    """
    _check_usage(payload, transaction_id, file, envelope)
    tally = PushCounts()
    if payload is not None:
        content = check_payload(payload.encode(errors="surrogateescape"))
        with connect(url, token) as client:
            tally.add(*client.push(queue, [Draft(content, partition, transaction_id, trace_id)]))
    else:
        defaults = Defaults(partition=partition, trace_id=trace_id)
        with _opened(file) as source:
            lines = Lines(source, defaults, envelope=envelope)
            asyncio.run(_push(connect_async(url, token), queue, lines, tally))
    _report(tally, as_json=as_json)


def _check_usage(
    payload: str | None, transaction_id: str | None, file: Path | None, envelope: bool
) -> None:
    if payload is None:
        if transaction_id is not None:
            raise typer.BadParameter("--transaction-id requires PAYLOAD; see --envelope for lines")
        if file is None and sys.stdin.isatty():
            raise typer.BadParameter("give PAYLOAD or --file, or pipe lines to stdin")
    elif file is not None or envelope:
        raise typer.BadParameter("PAYLOAD cannot be combined with --file or --envelope")


@contextmanager
def _opened(file: Path | None) -> Iterator[int]:
    """Open the file to read lines from, or return stdin."""
    if file is None:
        yield sys.stdin.fileno()
        return
    number = os.open(file, os.O_RDONLY)
    try:
        yield number
    finally:
        os.close(number)


async def _push(client: AsyncClient, queue: str, lines: Lines, tally: PushCounts) -> None:
    """Send drafts until the end, or until one is invalid or has failed."""
    in_bytes = lines.total is not None
    with output.progress("pushing", lines.total, in_bytes=in_bytes) as step:

        def settled(size: int, receipt: asyncio.Future[Receipt]) -> None:
            tally.settle(receipt)
            step(size)

        async with client, AsyncProducer(client) as producer:
            try:
                async for draft in lines:
                    size = lines.size if in_bytes else 1
                    receipt = await producer.push(queue, draft)
                    receipt.add_done_callback(partial(settled, size))
                    if tally.error is not None:
                        break
            except Invalid as error:
                tally.error = tally.error or Invalid(
                    f"line {lines.number}", f"{error}; this line and later ones were not sent"
                )
            except Unavailable as error:
                tally.error = tally.error or error


def _report(tally: PushCounts, *, as_json: bool) -> None:
    counts = {
        "stored": tally.stored,
        "duplicates": tally.duplicates,
        "buffered": tally.buffered,
    }
    output.print_done(counts, str(tally), as_json=as_json)
    if tally.error is not None:
        raise tally.error
