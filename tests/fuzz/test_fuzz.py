"""A few rounds of the search with fixed seeds; ``make fuzz`` looks for longer and elsewhere."""

from pathlib import Path

import pytest

from tests.fuzz.admin_operations import Sweep
from tests.fuzz.concurrent import close_cluster
from tests.fuzz.differential import play
from tests.fuzz.message_operations import PushSome
from tests.fuzz.operation import Step
from tests.fuzz.search import Search
from tests.fuzz.shrinker import shrink

DIFFERENTIAL = 20
"""Rounds."""

pytestmark = pytest.mark.xdist_group("killed")


def test_every_store_gives_the_same_answers(tmp_path: Path) -> None:
    search = Search(tmp_path)

    for number in range(DIFFERENTIAL):
        search.play(f"suite-d{number}")

    assert not search.failed


def test_clients_of_several_servers_see_no_promise_broken(tmp_path: Path) -> None:
    search = Search(tmp_path)

    try:
        search.play("suite-c4")
    finally:
        close_cluster()

    assert not search.failed


def test_the_same_seed_draws_the_same_round() -> None:
    first, second = play("again-d1"), play("again-d1")

    assert [str(step) for step in first.steps] == [str(step) for step in second.steps]
    assert first.options == second.options


def test_a_failing_list_of_steps_is_made_as_short_as_it_can_be() -> None:
    needed = Step(PushSome("orders", ()), 1)
    steps = [*(Step(Sweep(), 0) for _ in range(20)), needed, *(Step(Sweep(), 0) for _ in range(9))]

    assert shrink(steps, lambda some: needed in some) == [needed]
