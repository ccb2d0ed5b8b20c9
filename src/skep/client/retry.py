"""When a request is sent again, and what is said in the end. Pure: nobody sleeps here.

What certainly was not written is always sent again. What may have been written is sent again only
if a second time does no harm: a push whose messages have ids, a settlement, an extension, a
question, a transaction with an idempotency key.
"""

from dataclasses import dataclass
from random import random

from skep.errors import OutcomeUnknown, SkepError, Unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How patient a client is. ``attempts=1`` sends everything once."""

    attempts: int = 5
    first_delay: float = 0.2
    """Seconds before the second attempt; it doubles from there on, with jitter."""
    max_delay: float = 5.0
    """No pause is longer, also if the server asks for one that is."""

    def delay(self, failures: int, *, asked: float = 0.0, luck: float = 1.0) -> float:
        """Seconds to wait after so many failures in a row; ``luck`` is from 0 to 1."""
        # The exponent is bounded first: 2.0 ** 2000 is not a number of seconds.
        grown = self.first_delay * 2.0 ** min(failures - 1, 30)
        return min(max(grown * (0.5 + luck / 2), asked), self.max_delay)


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """Why an attempt failed. ``retry_after`` is set if the server says when to come back."""

    error: SkepError
    cause: Exception | None = None
    retry_after: float | None = None

    @property
    def wrote_nothing(self) -> bool:
        return isinstance(self.error, Unavailable) or self.retry_after is not None


class Attempts:
    """The attempts at one request."""

    def __init__(self, retry: Retry, *, repeatable: bool, last_counts: bool) -> None:
        self._retry = retry
        self._repeatable = repeatable
        self._last_counts = last_counts
        self._failures = 0
        self.uncertain = False
        """Whether one of them may have been carried out although its answer was lost."""

    def pause(self, failure: RequestFailure) -> float:
        """Seconds to wait before the next attempt; raises the error if there is to be none."""
        self._failures += 1
        unknown = isinstance(failure.error, OutcomeUnknown)
        again = failure.wrote_nothing or (unknown and self._repeatable)
        if not again or self._failures >= self._retry.attempts:
            raise self._final(failure) from failure.cause
        self.uncertain |= unknown
        asked = failure.retry_after or 0.0
        return self._retry.delay(self._failures, asked=asked, luck=random())

    def _final(self, failure: RequestFailure) -> SkepError:
        """That the last attempt wrote nothing says nothing about one whose answer was lost."""
        known = self._last_counts or not self.uncertain
        if known or isinstance(failure.error, OutcomeUnknown):
            return failure.error
        return OutcomeUnknown(f"an answer was lost, and the repetition failed: {failure.error}")
