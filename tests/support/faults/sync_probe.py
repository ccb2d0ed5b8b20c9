"""Answers on the standard output: ``python -m tests.support.faults.sync_probe STORE``.

Each line is written when a call has returned, so a trace of this process shows what was on disk
before the answer.
"""

import asyncio
import os
import sys

import skep
from skep import Ack, Draft, Push

ROUNDS = 3


def answer(what: str) -> None:
    os.write(1, f"{what}\n".encode())


async def main(store: str) -> None:
    async with skep.open(store, sweep_interval=None) as queue:
        await queue.queues.configure("orders")
        answer("configured")
        for number in range(ROUNDS):
            await queue.push("orders", [Draft(b"first"), Draft(b"second")])
            answer("pushed")
            delivery = await queue.pop("orders")
            assert delivery is not None
            answer("popped")
            await queue.extend(delivery, 1000)
            answer("extended")
            await queue.ack(delivery)
            answer("acked")
            delivery = await queue.pop("orders")
            assert delivery is not None
            assert delivery.lease_id is not None
            answer("popped")
            await queue.transact(
                [Ack(delivery.lease_id), Push("orders", [Draft(b"", f"new-{number}")])],
                idempotency_key=f"key-{number}",
            )
            answer("transacted")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
