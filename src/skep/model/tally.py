"""What happened in a stretch of time, in numbers."""

import msgspec

from skep.model.name import Instant


class Tally(msgspec.Struct, gc=False):
    """Counters of messages, and of the operations that moved them.

    ``failed`` messages will be delivered again; those that will not are ``dead_letters``. The
    lag of a delivery is the age of its oldest message, in microseconds; ``lags`` says how many
    deliveries it was taken of.
    """

    pushed: int = 0
    popped: int = 0
    acked: int = 0
    failed: int = 0
    dead_letters: int = 0
    pushes: int = 0
    pops: int = 0
    acks: int = 0
    lags: int = 0
    lag_sum: int = 0
    lag_max: int = 0

    def add(self, other: "Tally") -> None:
        self.pushed += other.pushed
        self.popped += other.popped
        self.acked += other.acked
        self.failed += other.failed
        self.dead_letters += other.dead_letters
        self.pushes += other.pushes
        self.pops += other.pops
        self.acks += other.acks
        self.lags += other.lags
        self.lag_sum += other.lag_sum
        self.lag_max = max(self.lag_max, other.lag_max)

    def note_lag(self, lag: int) -> None:
        self.lags += 1
        self.lag_sum += lag
        self.lag_max = max(self.lag_max, lag)

    @property
    def lag_mean(self) -> float:
        return self.lag_sum / self.lags if self.lags else 0.0


class Bucket(msgspec.Struct, frozen=True):
    """A tally of the minutes from ``start`` on."""

    start: Instant
    tally: Tally
