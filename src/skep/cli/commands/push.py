"""``skep push``: from an argument, a file or a pipe into a queue."""

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
    str | None, typer.Argument(help="One payload, as JSON. Without it, lines are read.")
]
Partition = Annotated[str, typer.Option(help="The partition of what names none itself.")]
TransactionId = Annotated[
    str | None, typer.Option(help="The id of PAYLOAD: the same id again is a duplicate.")
]
TraceId = Annotated[UUID | None, typer.Option(help="The trace to which the messages belong.")]
File = Annotated[
    Path | None,
    typer.Option("--file", exists=True, dir_okay=False, help="Read lines here, not from stdin."),
]
IsEnvelope = Annotated[
    bool,
    typer.Option("--envelope", help="Lines are objects: payload, partition, transactionId, ..."),
]


@dataclass(slots=True)
class PushCounts:
    """What became of the drafts that were sent."""

    stored: int = 0
    duplicates: int = 0
    laid_aside: int = 0
    error: Exception | None = None

    def settle(self, receipt: asyncio.Future[Receipt]) -> None:
        """Count a draft whose fate is known; the first error is kept."""
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
            self.laid_aside += 1
        else:
            self.stored += 1

    def __str__(self) -> str:
        aside = f", {self.laid_aside} laid aside until maintenance ends" if self.laid_aside else ""
        return f"{self.stored} stored, {self.duplicates} duplicates{aside}"


def push(
    queue: Annotated[str, typer.Argument(help="The queue; it is made if there is none.")],
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
    """Push messages into a queue.

    PAYLOAD is one message. Without it every line of a file or of stdin is one, as JSON. A line
    that is wrong ends it: what comes before it is stored, and nothing after it is sent.
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
            raise typer.BadParameter("--transaction-id is for one PAYLOAD; see --envelope")
        if file is None and sys.stdin.isatty():
            raise typer.BadParameter("give a PAYLOAD or --file, or pipe lines into it")
    elif file is not None or envelope:
        raise typer.BadParameter("a PAYLOAD goes without --file and --envelope")


@contextmanager
def _opened(file: Path | None) -> Iterator[int]:
    """The file to read lines from: the one that is named, or stdin."""
    if file is None:
        yield sys.stdin.fileno()
        return
    number = os.open(file, os.O_RDONLY)
    try:
        yield number
    finally:
        os.close(number)


async def _push(client: AsyncClient, queue: str, lines: Lines, tally: PushCounts) -> None:
    """Send drafts until there are no more, or one is wrong or has failed."""
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
                    f"line {lines.number}", f"{error}; nothing from there on was sent"
                )
            except Unavailable as error:
                tally.error = tally.error or error


def _report(tally: PushCounts, *, as_json: bool) -> None:
    counts = {
        "stored": tally.stored,
        "duplicates": tally.duplicates,
        "laidAside": tally.laid_aside,
    }
    output.print_done(counts, str(tally), as_json=as_json)
    if tally.error is not None:
        raise tally.error
