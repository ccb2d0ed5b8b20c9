"""Read from one queue and write to another: together, and once.

Each order is acknowledged in the same transaction that pushes its invoice, so there is never an
order without its invoice nor an invoice without its order. The answer may be lost on the way: the
idempotency key makes it safe to ask again, which the client does by itself, and so does the next
run of this program.

    python examples/client_transaction.py http://127.0.0.1:6632
"""

import sys

from skep import Ack, Client, Draft, Push


def invoice_all(client: Client) -> None:
    while delivery := client.pop("shop.sales", group="invoicing", batch=10, wait=1):
        assert delivery.lease_id is not None
        invoices = [
            Draft.json({"invoice": order.json()["total"]}, order.partition, str(order.id))
            for order in delivery.messages
        ]
        work = (Ack(delivery.lease_id), Push("shop.invoices", invoices))
        done = client.transact(work, idempotency_key=delivery.lease_id)
        (receipts,) = done.receipts
        print(f"  {len(receipts)} orders have their invoices")
        again = client.transact(work, idempotency_key=delivery.lease_id)
        print(f"  asked again, nothing is done a second time: {again.repeated}")


def main(url: str) -> None:
    with Client(url) as client:
        client.push("shop.sales", [Draft.json({"total": n}, "alice") for n in (12, 30, 7)])
        invoice_all(client)
        delivery = client.pop("shop.invoices", group="mailing", batch=100)
        for message in delivery.messages if delivery else []:
            print(f"  to {message.partition}: {message.json()}")


if __name__ == "__main__":
    main(*sys.argv[1:] or ["http://127.0.0.1:6632"])
