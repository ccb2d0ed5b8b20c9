"""What a change weighs until it is committed."""

import pytest

from skep.model.change import CHANGE_WEIGHT, Append, Change, EntryUpdate, GiveUp, weight_of
from skep.model.segment import Columns

APPEND = Append(queue=1, partition=1, columns=Columns(payloads=[b"12", b"345"]))
GIVE_UP = GiveUp(queue=1, partition=1, offset=0, group="billing", error="broken", attempts=1)


@pytest.mark.parametrize(
    ("change", "weight"),
    [
        (Change(), 0),
        (Change(appends=(APPEND, APPEND)), 2 * weight_of(2, 5)),
        (Change(dead_letters=(GIVE_UP,)), len("broken")),
        (Change(entries=(EntryUpdate(space="s", key="k", value=b"1234"),)), 4),
        (Change(entries=(EntryUpdate(space="s", key="k", value=None),)), 0),
    ],
    ids=["empty", "appends", "dead letter", "entry", "removed entry"],
)
def test_a_change_weighs_what_it_carries(change: Change, weight: int) -> None:
    assert change.weight == CHANGE_WEIGHT + weight


def test_every_message_weighs_something() -> None:
    assert weight_of(2, 5) > weight_of(1, 5) > 5
