"""``skep transfer``: copy queues from one store to another."""

import asyncio
from contextlib import AsyncExitStack
from typing import Annotated

import typer

from skep.cli import output
from skep.cli.options import Json
from skep.core.transfer.transfer import TransferResult, prepare
from skep.store.open import open_transferable

Source = Annotated[str, typer.Argument(help="Source store: a directory, or postgresql://…")]
Target = Annotated[
    str,
    typer.Argument(
        help="Target store: a directory, or postgresql://…; created if it does not exist."
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option("--queue", help="Only this queue. Repeatable. Default: all queues."),
]


def transfer(source: Source, target: Target, queue: Only = None, as_json: Json = False) -> None:
    """Copy queues from one store to another.

    Stop the servers of both stores first. Messages, offsets, cursors, leases, dead letters, traces
    and the retention history are copied; the source is not changed. Repeat the command to resume
    an interrupted transfer.
    """
    result = asyncio.run(_transfer(source, target, queue or []))
    output.print_done(result, _summary(result), as_json=as_json)


async def _transfer(source: str, target: str, queues: list[str]) -> TransferResult:
    async with AsyncExitStack() as opened:
        old = open_transferable(source, create=False)
        opened.push_async_callback(old.close)
        new = open_transferable(target)
        opened.push_async_callback(new.close)
        plan = await prepare(old, new, queues)
        with output.progress("copying messages", plan.messages) as step:
            return await plan.run(step)


def _summary(result: TransferResult) -> str:
    ids = "unchanged" if result.ids_kept else "new, because the target already used these numbers"
    return (
        f"copied {result.queues} queues with {result.messages} messages and "
        f"{result.dead_letters} dead letters; message ids are {ids}\n"
        "next: start the servers on the target; delete the source when it is no longer needed"
    )
