"""``skep demo``: something to look at."""

from collections.abc import Callable
from typing import Annotated

import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.demo_shop import Book, Shop, orders_of
from skep.cli.options import Json
from skep.cli.output import Step

STEP = 500

Orders = Annotated[int, typer.Option(min=1, max=100_000, help="How many orders.")]
Seed = Annotated[int, typer.Option(help="The same seed makes the same shop.")]
Prefix = Annotated[str, typer.Option(help="What the names of its queues begin with.")]


def demo(
    orders: Orders = 2000,
    seed: Seed = 1,
    prefix: Prefix = "demo-",
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Fill a server with a small shop to look at.

    Orders become payments, and payments become shipments, under one trace id each. Some fail
    and are dead letters, a few are forgotten on their way, one customer orders a quarter of
    everything, and the group reports is late. The same command again adds nothing.
    """
    wanted = orders_of(seed, orders)
    book: Book = {order.trace_id: order for order in wanted}
    with connect(url, token) as client:
        shop = Shop(client, prefix)
        with output.progress("opening the shop", 3 * orders) as step:
            for first in range(0, orders, STEP):
                shop.order(wanted[first : first + STEP])
                step(len(wanted[first : first + STEP]))
            _all(lambda: shop.bill(book), step)
            _all(lambda: shop.ship(book), step)
        _be_late(shop, orders)
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


def _be_late(shop: Shop, orders: int) -> None:
    """A third and no more, also when the shop was opened before."""
    known = [each for each in shop.client.groups.list(shop.orders) if each.group == "reports"]
    if not known:
        shop.report(max(1, orders // 3))


def _words(shop: Shop, counts: dict[str, int], letters: int) -> str:
    held = ", ".join(f"{count} in {name}" for name, count in counts.items())
    return f"""there are {held}, and {letters} dead letters; try next

  skep queue list
  skep tail {shop.shipments} --count 3
  skep dead-letter list {shop.orders} --count 5
  skep group lag {shop.orders} reports
  skep pipeline run traces --within 0s --to traces
  skep pipeline run analytics --to analytics"""
