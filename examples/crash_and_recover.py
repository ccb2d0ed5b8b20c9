"""Push, pop, crash, recover.

A process pushes orders and is killed with SIGKILL while it works. The next one opens the same
directory: every message whose push returned is there, and the order that was leased but never
acknowledged is redelivered.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile

import skep
from skep import Draft


async def work_until_killed(path: str) -> None:
    async with skep.open(path) as queue:
        await queue.queues.configure("orders", lease_time=1)
        for number in range(1, 6):
            order = Draft(
                b'{"order": %d}' % number, partition="alice", transaction_id=f"o-{number}"
            )
            (receipt,) = await queue.push("orders", [order])
            print(f"  pushed   order {number} at offset {receipt.offset}", flush=True)
        delivery = await queue.pop("orders", group="billing", batch=2)
        assert delivery is not None
        first, second = delivery.messages
        await queue.ack(delivery, [first])
        print(f"  acked    {first.payload.decode()}")
        print(f"  leased   {second.payload.decode()}, and then the power goes out", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


async def recover(path: str) -> None:
    async with skep.open(path) as queue:
        (again,) = await queue.push("orders", [Draft(b"{}", "alice", transaction_id="o-5")])
        print(f"  order 5 pushed again is a duplicate: {again.duplicate}")
        while delivery := await queue.pop("orders", group="billing", batch=10, wait=3):
            for message in delivery.messages:
                print(f"  received {message.payload.decode()}, attempt {message.attempt}")
            await queue.ack(delivery)


def main() -> None:
    if len(sys.argv) > 1:
        asyncio.run(work_until_killed(sys.argv[1]))
    with tempfile.TemporaryDirectory() as path:
        print("The first process works until it is killed:")
        killed = subprocess.run([sys.executable, __file__, path], check=False)
        print(f"It ended with signal {-killed.returncode}. The second opens the same directory:")
        asyncio.run(recover(path))
        print("Nothing was lost, and what was acknowledged did not come again.")


if __name__ == "__main__":
    main()
