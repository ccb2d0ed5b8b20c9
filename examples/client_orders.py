"""A shop and its billing, over HTTP.

The shop pushes orders one by one; the producer sends them in batches, in order for each customer.
The worker bills two customers at a time, and an order that cannot be billed becomes a dead letter
instead of blocking the others.

    python examples/client_orders.py http://127.0.0.1:6632
"""

import asyncio
import sys

from skep import AsyncClient, AsyncProducer, AsyncWorker, Draft, Message

CUSTOMERS = ("alice", "bob", "carol")
ORDERS = 30


async def sell(client: AsyncClient) -> None:
    async with AsyncProducer(client) as producer:
        for number in range(ORDERS):
            order = {"number": number, "total": 10 * number}
            await producer.push("shop.orders", Draft.json(order, CUSTOMERS[number % 3]))
    print(f"  {ORDERS} orders stored")


async def bill(client: AsyncClient) -> dict[str, list[int]]:
    worker = AsyncWorker(
        client, "shop.orders", group="billing", concurrency=2, install_signal_handlers=True
    )
    billed: dict[str, list[int]] = {}
    handled = 0

    @worker.handler
    async def handle(message: Message) -> None:
        nonlocal handled
        handled += 1
        if handled == ORDERS:
            worker.stop()
        order = message.json()
        if order["number"] == 7:
            raise ValueError("no such account")
        billed.setdefault(message.partition, []).append(order["number"])

    await worker.run()
    return billed


async def main(url: str) -> None:
    async with AsyncClient(url) as client:
        await sell(client)
        for customer, numbers in sorted((await bill(client)).items()):
            print(f"  billed to {customer}: {numbers}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:] or ["http://127.0.0.1:6632"]))
