"""The time range of a query, and the width of its buckets."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from skep.errors import Invalid
from skep.model.name import Instant, from_datetime
from skep.wire.body import Body
from skep.wire.pagination import TimeRange, in_utc

RECENT = timedelta(hours=1)

_WIDTHS = (
    (timedelta(minutes=60), 1),
    (timedelta(hours=6), 5),
    (timedelta(hours=24), 15),
    (timedelta(days=7), 60),
)
_WIDEST = 360


class WindowQuery(Body, frozen=True, kw_only=True):
    """The last hour and all queues by default."""

    from_: datetime | None = msgspec.field(default=None, name="from")
    to: datetime | None = None
    queue: str | None = None
    namespace: str | None = None
    task: str | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """A time range, and the width of its buckets in minutes."""

    start: datetime
    stop: datetime
    minutes: int

    @property
    def start_at(self) -> Instant:
        return from_datetime("from", self.start)

    @property
    def stop_at(self) -> Instant:
        return from_datetime("to", self.stop)

    @property
    def time_range(self) -> TimeRange:
        return TimeRange(from_=self.start, to=self.stop)


def to_window(query: WindowQuery, now: datetime, *, minutes: int | None = None) -> Window:
    """The time range of a query; buckets are as wide as in Queen unless ``minutes`` is given."""
    stop = in_utc(query.to) or now
    start = in_utc(query.from_) or _before(stop)
    if start > stop:
        raise Invalid("from", "must not be later than to")
    span = stop - start
    width = next((minutes for longest, minutes in _WIDTHS if span <= longest), _WIDEST)
    return Window(start, stop, minutes or width)


def _before(stop: datetime) -> datetime:
    try:
        return stop - RECENT
    except OverflowError:
        raise Invalid("to", "is too early") from None
