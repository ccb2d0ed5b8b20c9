"""When a request is retried, and which error is raised in the end. Pure: no I/O, no sleep.

A request that certainly wrote nothing is always retried. A request that may have been carried out
is retried only if that is safe: a push whose messages have ids, a settlement, an extension, a read,
a transaction with an idempotency key.
"""

from dataclasses import dataclass
from random import random

from skep.errors import OutcomeUnknown, SkepError, Unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often and when a client retries. ``attempts=1`` sends every request once."""

    attempts: int = 5
    first_delay: float = 0.2
    """Seconds before the second attempt; it doubles from there on, with jitter."""
    max_delay: float = 5.0
    """Maximum delay in seconds, even if the server asks for a longer one."""

    def delay(self, failures: int, *, retry_after: float = 0.0, jitter: float = 1.0) -> float:
        """Return the seconds to wait after a number of consecutive failures.

        At least ``retry_after``; ``jitter``, from 0 to 1, varies the rest by half.
        """
        # The exponent is bounded: 2.0 ** 2000 overflows.
        backoff = self.first_delay * 2.0 ** min(failures - 1, 30)
        return min(max(backoff * (0.5 + jitter / 2), retry_after), self.max_delay)


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """Why an attempt failed. ``retry_after`` is set if the server sent such a header."""

    error: SkepError
    cause: Exception | None = None
    retry_after: float | None = None

    @property
    def wrote_nothing(self) -> bool:
        """Whether the server certainly did not carry out the request."""
        return isinstance(self.error, Unavailable) or self.retry_after is not None


class Attempts:
    """The attempts at one request."""

    def __init__(self, retry: Retry, *, repeatable: bool, last_counts: bool) -> None:
        self._retry = retry
        self._repeatable = repeatable
        self._last_counts = last_counts
        self._failures = 0
        self.uncertain = False
        """Whether an attempt whose response was lost may have been carried out."""

    def pause(self, failure: RequestFailure) -> float:
        """Return the seconds to wait before the next attempt; raise the error if there is none."""
        self._failures += 1
        unknown = isinstance(failure.error, OutcomeUnknown)
        is_safe = failure.wrote_nothing or (unknown and self._repeatable)
        if not is_safe or self._failures >= self._retry.attempts:
            raise self._final(failure) from failure.cause
        self.uncertain |= unknown
        retry_after = failure.retry_after or 0.0
        return self._retry.delay(self._failures, retry_after=retry_after, jitter=random())

    def _final(self, failure: RequestFailure) -> SkepError:
        """Return the error to raise: the last one, unless an earlier attempt may have succeeded."""
        is_known = self._last_counts or not self.uncertain
        if is_known or isinstance(failure.error, OutcomeUnknown):
            return failure.error
        return OutcomeUnknown(f"a response was lost, and the retry failed: {failure.error}")
