"""``skep demo``."""

from collections import Counter
from uuid import uuid4

import pytest

from skep.cli.demo_shop import orders_of
from tests.support.cli_shell import Shell


@pytest.fixture
def prefix() -> str:
    return f"{uuid4().hex[:8]}-"


def test_the_shop_is_what_its_seed_says_and_opened_once(shell: Shell, prefix: str) -> None:
    command = ("demo", "--orders", "250", "--seed", "3", "--prefix", prefix)
    fates = Counter(order.outcome for order in orders_of(3, 250))

    first = shell.json(*command)
    again = shell.json(*command)

    declined = fates["declined"] + fates["slow bank"]
    assert first["queues"] == {
        f"{prefix}orders": 250,
        f"{prefix}payments": 250 - declined,
        f"{prefix}shipments": fates["shipped"],
    }
    assert first["deadLetters"] == declined + fates["no address"]
    assert again == first


def test_one_group_is_late(shell: Shell, prefix: str) -> None:
    shell.run("demo", "--orders", "90", "--prefix", prefix)
    shell.run("demo", "--orders", "90", "--prefix", prefix)

    rows = shell.json("group", "lag", f"{prefix}orders", "reports")

    assert sum(row["backlog"] for row in rows) == 60


def test_two_shops_under_one_prefix_do_not_mix(shell: Shell, prefix: str) -> None:
    first, second = orders_of(1, 40), orders_of(2, 40)

    shell.run("demo", "--orders", "40", "--seed", "1", "--prefix", prefix)
    both = shell.json("demo", "--orders", "40", "--seed", "2", "--prefix", prefix)

    paid = sum(order.is_paid for order in first + second)
    assert both["queues"][f"{prefix}orders"] == 80
    assert both["queues"][f"{prefix}payments"] == paid


def test_what_to_try_next_is_said(shell: Shell, prefix: str) -> None:
    assert "skep pipeline run" in shell.run("demo", "--orders", "10", "--prefix", prefix).stdout
