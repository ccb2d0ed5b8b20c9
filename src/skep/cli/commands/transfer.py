"""``skep transfer``: from one store to another."""

import asyncio
from contextlib import AsyncExitStack
from typing import Annotated

import typer

from skep.cli import output
from skep.cli.options import Json
from skep.core.transfer.transfer import TransferResult, prepare
from skep.store.open import open_transferable

Source = Annotated[str, typer.Argument(help="Where the queues are: a directory, or postgresql://…")]
Target = Annotated[
    str, typer.Argument(help="Where they go: a directory, or postgresql://…; made if need be.")
]
Only = Annotated[
    list[str] | None, typer.Option("--queue", help="Only this queue; may be given several times.")
]


def transfer(source: Source, target: Target, queue: Only = None, as_json: Json = False) -> None:
    """Move queues from one store to another.

    Stop the servers of both first. Messages, offsets, cursors, leases, dead letters, traces and
    history are the same afterwards. The source is copied, not changed. What was interrupted
    goes on where it was when the same command is given again.
    """
    moved = asyncio.run(_transfer(source, target, queue or []))
    output.print_done(moved, _words(moved), as_json=as_json)


async def _transfer(source: str, target: str, queues: list[str]) -> TransferResult:
    async with AsyncExitStack() as opened:
        old = open_transferable(source, create=False)
        opened.push_async_callback(old.close)
        new = open_transferable(target)
        opened.push_async_callback(new.close)
        plan = await prepare(old, new, queues)
        with output.progress("moving messages", plan.messages) as step:
            return await plan.run(step)


def _words(moved: TransferResult) -> str:
    ids = "as they were" if moved.ids_kept else "new, because the target had given these numbers"
    return (
        f"the target holds {moved.queues} queues with {moved.messages} messages and "
        f"{moved.dead_letters} dead letters; message ids are {ids}\n"
        "the source is as it was: start the servers on the target, and remove the source when "
        "you do not need it any more"
    )
