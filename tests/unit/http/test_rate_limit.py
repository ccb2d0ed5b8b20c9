"""Token buckets."""

import pytest

from skep.errors import RateLimited
from skep.http import rate_limit as rate
from skep.http.rate_limit import RateLimit


class Time:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def taken(limit: RateLimit, principal: str | None, per_second: int, tries: int = 100) -> int:
    """How many requests of several at once are let through."""
    done = 0
    for _ in range(tries):
        try:
            limit.take(principal, per_second)
        except RateLimited:
            continue
        done += 1
    return done


def test_as_many_requests_as_the_rate_are_let_through_at_once_and_then_one_by_one() -> None:
    time = Time()
    limit = RateLimit(time)

    assert taken(limit, "ann", 10) == 10
    time.now += 0.1
    assert taken(limit, "ann", 10) == 1
    time.now += 0.5
    assert taken(limit, "ann", 10) == 5
    time.now += 3600
    assert taken(limit, "ann", 10) == 10


def test_principals_do_not_share_a_bucket() -> None:
    limit = RateLimit(Time())

    assert [taken(limit, who, 3) for who in ("ann", "bob", None, "ann")] == [3, 3, 3, 0]


def test_who_is_refused_is_told_when_to_come_back() -> None:
    time = Time()
    limit = RateLimit(time)
    limit.take("ann", 1)

    with pytest.raises(RateLimited) as refused:
        limit.take("ann", 1)

    assert refused.value.retry_after == pytest.approx(1)
    assert refused.value.limit == 1
    time.now += refused.value.retry_after
    limit.take("ann", 1)


def test_the_number_of_buckets_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate, "MAX_BUCKETS", 10)
    limit = RateLimit(Time())

    for number in range(100):
        limit.take(str(number), 1)

    assert len(limit) == 10
    assert taken(limit, "99", 1) == 0
