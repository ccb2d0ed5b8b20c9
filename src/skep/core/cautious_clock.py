"""A clock for deleting by age that does not trust a sudden jump of the store's clock."""

import logging

from skep.model.name import SECOND, Instant
from skep.store.clock import Clock, SystemClock

LEAP = 60 * SECOND
"""A forward jump of the store's clock up to this size is accepted at once."""

_log = logging.getLogger("skep.broker")


class CautiousClock:
    """The store's time, for decisions that cannot be undone.

    If an operator sets the store's clock forward, everything stored looks old at once. A larger
    jump is therefore followed only as fast as the local clock advances, which leaves time to
    correct the store's clock before anything is deleted.
    """

    def __init__(self, clock: Clock, own: Clock | None = None) -> None:
        self._clock = clock
        self._own = own or SystemClock()
        self._ahead = clock.now() - self._own.now()
        """How far the store's clock is ahead of the local one, as far as that is accepted."""
        self._read_at = self._own.now()
        self._leaping = False

    def now(self) -> Instant:
        own, stored = self._own.now(), self._clock.now()
        passed, self._read_at = own - self._read_at, own
        leap = stored - own - self._ahead
        if leap > LEAP and not self._leaping:
            _log.error(
                "store clock jumped ahead, delaying deletion by age: seconds=%d", leap // SECOND
            )
        self._leaping = leap > LEAP
        self._ahead += min(leap, passed) if self._leaping else leap
        return own + self._ahead
