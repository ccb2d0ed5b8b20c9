"""The example data of a small shop: its orders and their outcomes, the same for the same seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, TypeAlias
from uuid import UUID

from skep.client.sync_client import Client
from skep.model.message import Delivery, Draft, Message
from skep.model.operation import Ack, Operation, Push, Verdict, lease_id_of

OrderOutcome: TypeAlias = Literal["shipped", "declined", "slow bank", "no address", "stuck"]

CUSTOMERS = 40
_OUTCOMES: tuple[OrderOutcome, ...] = ("shipped", "declined", "slow bank", "no address", "stuck")
_WEIGHTS = (90, 4, 2, 3, 1)
_ARTICLES = ("beeswax", "honey", "smoker", "veil", "frames")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An order and its predetermined outcome."""

    number: int
    customer: str
    article: str
    total: float
    trace_id: UUID
    outcome: OrderOutcome

    @property
    def is_paid(self) -> bool:
        return self.outcome not in ("declined", "slow bank")

    @property
    def error(self) -> str:
        """The reason of its dead letter; empty if it does not become one."""
        number = self.number
        return {
            "declined": f"the card of '{self.customer}' was declined with code {50 + number % 9}",
            "slow bank": f"no answer from 10.0.0.{number % 5} within {30_000 + number} ms",
            "no address": f'there is no address "{number} Hive Road" for {self.trace_id}',
        }.get(self.outcome, "")


@dataclass(frozen=True, slots=True)
class Shop:
    """The queues of a shop, all with the same prefix."""

    client: Client
    prefix: str

    @property
    def orders(self) -> str:
        return f"{self.prefix}orders"

    @property
    def payments(self) -> str:
        return f"{self.prefix}payments"

    @property
    def shipments(self) -> str:
        return f"{self.prefix}shipments"

    def order(self, orders: Sequence[Order]) -> int:
        """Push orders; return how many of them are new."""
        receipts = self.client.push(self.orders, [_draft("order", order) for order in orders])
        return sum(not receipt.duplicate for receipt in receipts)

    def bill(self, orders: "Book") -> int:
        """Turn popped orders into payments in one transaction; return how many were popped."""
        return self._pass_on(orders, self.orders, "billing", self.payments, "payment")

    def ship(self, orders: "Book") -> int:
        """Turn popped payments into shipments in one transaction; return how many were popped."""
        return self._pass_on(orders, self.payments, "shipping", self.shipments, "shipment")

    def report(self, maximum: int) -> int:
        """Consume some orders for the group that lags."""
        delivery = self.client.pop(
            self.orders, group="reports", batch=maximum, partitions=CUSTOMERS
        )
        if delivery is None:
            return 0
        self.client.ack(delivery)
        return len(delivery.messages)

    def _pass_on(self, book: "Book", queue: str, group: str, to: str, what: str) -> int:
        delivery = self.client.pop(queue, group=group, batch=500, partitions=CUSTOMERS)
        if delivery is None:
            return 0
        held = [(message, book.get(message.trace_id)) for message in delivery.messages]
        done = [order for _, order in held if order and _goes_on(order, what)]
        operations: list[Operation] = [_settle(delivery, held, what)]
        if done:
            operations.append(Push(to, [_draft(what, order) for order in done]))
        self.client.transact(operations)
        return len(held)


Book: TypeAlias = Mapping[UUID | None, Order]
"""Orders by trace id. A message of any other order is acknowledged."""


def orders_of(seed: int, count: int) -> list[Order]:
    """Return the orders of a shop. The first customer places a quarter of them."""
    random = Random(seed)
    return [_order(random, number) for number in range(count)]


def _order(random: Random, number: int) -> Order:
    hot = random.random() < 0.25
    return Order(
        number=number,
        customer=f"customer-{1 if hot else random.randint(1, CUSTOMERS):02}",
        article=random.choice(_ARTICLES),
        total=round(random.uniform(5, 500), 2),
        trace_id=UUID(int=random.getrandbits(128), version=4),
        outcome=random.choices(_OUTCOMES, _WEIGHTS)[0],
    )


def _draft(what: str, order: Order) -> Draft:
    value = {
        "order": order.number,
        "customer": order.customer,
        "article": order.article,
        "total": order.total,
    }
    # The trace id depends on the seed: an order of another seed is another order.
    name = f"{what}-{order.number}-{order.trace_id.hex[:8]}"
    return Draft.json(value, order.customer, name, order.trace_id)


def _goes_on(order: Order, what: str) -> bool:
    return order.is_paid if what == "payment" else order.outcome == "shipped"


def _settle(delivery: Delivery, held: Sequence[tuple[Message, Order | None]], what: str) -> Ack:
    return Ack(lease_id_of(delivery), [_verdict(message, order, what) for message, order in held])


def _verdict(message: Message, order: Order | None, what: str) -> Verdict:
    place = (message.partition_number, message.offset)
    if order is None or _goes_on(order, what) or not order.error:
        return Verdict(*place)
    return Verdict(*place, "dead_letter", order.error)
