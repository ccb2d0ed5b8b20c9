"""What a group's state in a partition says of itself."""

import pytest

from skep.model.consumer import ConsumerState, Lease, new_token
from skep.model.name import LeaseId

LEASE = Lease(LeaseId("a"), granted_at=0, expires_at=10)


@pytest.mark.parametrize(("now", "live"), [(0, LEASE), (9, LEASE), (10, None), (11, None)])
def test_a_lease_lives_until_the_instant_at_which_it_ends(now: int, live: Lease | None) -> None:
    assert ConsumerState(lease=LEASE).live_lease(now) == live


def test_a_state_without_a_lease_has_no_live_one() -> None:
    assert ConsumerState().live_lease(0) is None


@pytest.mark.parametrize(
    ("cursor", "run_end", "attempt"),
    [(3, 0, 1), (3, 3, 1), (3, 4, 3)],
    ids=["none", "done", "open"],
)
def test_a_run_that_is_not_done_comes_again_and_is_counted(
    cursor: int, run_end: int, attempt: int
) -> None:
    state = ConsumerState(cursor=cursor, run_end=run_end, attempt=2)

    assert (state.comes_again, state.next_attempt) == (attempt > 1, attempt)


def test_two_writes_of_one_version_have_different_revisions() -> None:
    first, second = (ConsumerState(version=3, token=new_token()) for _ in range(2))

    assert first.revision.version == second.revision.version == 3
    assert first.revision != second.revision
