"""Read from one queue and write to another, atomically and once.

Each order is acknowledged in the transaction that pushes its invoice, so there is never an
acknowledged order without an invoice nor an invoice without its order. If a response is lost, the
idempotency key makes a retry safe: the client retries by itself, and so does the next run of this
program.

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
        operations = (Ack(delivery.lease_id), Push("shop.invoices", invoices))
        result = client.transact(operations, idempotency_key=delivery.lease_id)
        (receipts,) = result.receipts
        print(f"  {len(receipts)} invoices pushed")
        repeated = client.transact(operations, idempotency_key=delivery.lease_id)
        print(f"  sent again, nothing was done a second time: {repeated.repeated}")


def main(url: str) -> None:
    with Client(url) as client:
        client.push("shop.sales", [Draft.json({"total": n}, "alice") for n in (12, 30, 7)])
        invoice_all(client)
        delivery = client.pop("shop.invoices", group="mailing", batch=100)
        for message in delivery.messages if delivery else []:
            print(f"  to {message.partition}: {message.json()}")


if __name__ == "__main__":
    main(*sys.argv[1:] or ["http://127.0.0.1:6632"])
