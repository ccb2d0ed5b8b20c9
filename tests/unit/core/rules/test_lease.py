"""How a group takes, keeps and gives back a partition."""

from msgspec.structs import replace

from skep.core.rules import lease as leases
from skep.model.consumer import ConsumerState, Failure, Lease
from skep.model.name import SECOND, LeaseId
from skep.model.queue import QueueOptions

NOW = 1000 * SECOND
LEASE = Lease(LeaseId("a"), granted_at=NOW, expires_at=NOW + 30 * SECOND, next_at=NOW)
LEASED = ConsumerState(
    version=4,
    cursor=2,
    acked=((3, 5),),
    run_end=8,
    attempt=1,
    lease=LEASE,
    failed=(Failure(2, "no"), Failure(6, "no")),
    messages_consumed=10,
    batches_consumed=3,
    last_consumed_at=NOW - SECOND,
)


def test_a_lease_is_live_under_its_own_id_until_it_expires() -> None:
    assert leases.is_live(LEASED, LeaseId("a"), NOW)
    assert not leases.is_live(LEASED, LeaseId("b"), NOW)
    assert not leases.is_live(LEASED, LeaseId("a"), LEASE.expires_at)
    assert not leases.is_live(ConsumerState(), LeaseId("a"), NOW)


def test_an_extension_counts_from_now_and_never_shortens_a_lease() -> None:
    longer = leases.extend(LEASED, seconds=60, now=NOW)
    shorter = leases.extend(LEASED, seconds=1, now=NOW)

    assert longer == replace(LEASED, version=5, lease=replace(LEASE, expires_at=NOW + 60 * SECOND))
    assert shorter == replace(LEASED, version=5)


def test_an_extension_without_a_lease_changes_nothing() -> None:
    free = replace(LEASED, lease=None)

    assert leases.extend(free, seconds=60, now=NOW) == free


def test_a_released_run_keeps_its_acks_and_forgets_its_failures() -> None:
    assert leases.release(LEASED) == replace(LEASED, version=5, lease=None, failed=())


def test_what_is_passed_over_is_done_without_a_lease() -> None:
    passed = leases.pass_over(LEASED, 2, 3, consumed=1, now=NOW, oldest_at=NOW)

    assert passed == ConsumerState(
        version=5,
        cursor=5,
        oldest_at=NOW,
        messages_consumed=11,
        batches_consumed=4,
        last_consumed_at=NOW,
    )


def test_what_is_passed_over_without_a_delivery_is_no_batch() -> None:
    passed = leases.pass_over(LEASED, 6, 8, consumed=0, now=NOW, oldest_at=NOW)

    assert (passed.cursor, passed.acked) == (2, ((3, 5), (6, 8)))
    assert (passed.messages_consumed, passed.batches_consumed) == (10, 3)


def test_a_seek_keeps_the_counters_only() -> None:
    assert leases.seek(LEASED, 7, oldest_at=NOW) == ConsumerState(
        version=5,
        cursor=7,
        oldest_at=NOW,
        messages_consumed=10,
        batches_consumed=3,
        last_consumed_at=NOW - SECOND,
    )


def test_the_cursor_is_never_before_the_start_of_the_partition() -> None:
    moved = leases.from_start(LEASED, 3)

    assert (moved.cursor, moved.acked, moved.failed) == (5, (), (Failure(6, "no"),))
    assert leases.from_start(LEASED, 2) is LEASED


def test_truncated_messages_that_were_acked_were_not_missed() -> None:
    assert leases.missed(LEASED, 2) == 0
    assert leases.missed(LEASED, 4) == 1
    assert leases.missed(LEASED, 7) == 3


def test_a_clock_that_was_set_back_makes_no_lease_and_no_retry_longer() -> None:
    options = QueueOptions(retry_delay=1000)
    earlier = NOW - 3600 * SECOND
    waiting = replace(LEASED, ready_at=NOW + 3600 * SECOND, retries=1)

    bounded = leases.bounded(waiting, options, earlier)

    assert bounded.lease == replace(LEASE, granted_at=earlier, expires_at=earlier + 30 * SECOND)
    assert bounded.ready_at == earlier + int(1.2 * SECOND)


def test_a_clock_that_went_on_bounds_nothing() -> None:
    assert leases.bounded(LEASED, QueueOptions(), NOW) is LEASED
    free = replace(LEASED, lease=None)
    assert leases.bounded(free, QueueOptions(), NOW) is free
