"""``skep demo``: example data."""

from collections.abc import Callable
from typing import Annotated

import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.demo_shop import Book, Shop, orders_of
from skep.cli.options import Json
from skep.cli.output import Step

STEP = 500

Orders = Annotated[int, typer.Option(min=1, max=100_000, help="Number of orders.")]
Seed = Annotated[int, typer.Option(help="Seed of the random data.")]
Prefix = Annotated[str, typer.Option(help="Prefix of the queue names.")]


def demo(
    orders: Orders = 2000,
    seed: Seed = 1,
    prefix: Prefix = "demo-",
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Fill a server with the example data of a small shop.

    Orders become payments, and payments become shipments, with one trace id each. Some fail and
    become dead letters, a few get stuck, one customer places a quarter of all orders, and the
    group reports lags. Repeating the command adds nothing.
    """
    shop_orders = orders_of(seed, orders)
    book: Book = {order.trace_id: order for order in shop_orders}
    with connect(url, token) as client:
        shop = Shop(client, prefix)
        with output.progress("creating orders", 3 * orders) as step:
            for first in range(0, orders, STEP):
                shop.order(shop_orders[first : first + STEP])
                step(len(shop_orders[first : first + STEP]))
            _all(lambda: shop.bill(book), step)
            _all(lambda: shop.ship(book), step)
        _create_lag(shop, orders)
        counts = {
            name: client.queues.stats(name).pushed
            for name in (shop.orders, shop.payments, shop.shipments)
        }
        letters = sum(map(client.dead_letters.count, (shop.orders, shop.payments)))
    figures = {"queues": counts, "deadLetters": letters}
    output.print_done(figures, _words(shop, counts, letters), as_json=as_json)


def _all(work: Callable[[], int], step: Step) -> None:
    while done := work():
        step(done)


def _create_lag(shop: Shop, orders: int) -> None:
    """Let the group reports read a third of the orders, once."""
    groups = [lag.group for lag in shop.client.groups.list(shop.orders)]
    if "reports" not in groups:
        shop.report(max(1, orders // 3))


def _words(shop: Shop, counts: dict[str, int], letters: int) -> str:
    stored = ", ".join(f"{count} in {name}" for name, count in counts.items())
    return f"""messages: {stored}; dead letters: {letters}. Next, try

  skep queue list
  skep tail {shop.shipments} --count 3
  skep dead-letter list {shop.orders} --count 5
  skep group lag {shop.orders} reports
  skep pipeline run traces --within 0s --to traces
  skep pipeline run analytics --to analytics"""
