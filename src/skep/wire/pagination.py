"""Limits, offsets and time ranges of lists."""

from datetime import UTC, datetime
from typing import Annotated, overload

import msgspec

from skep.wire.body import Body

Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Skip = Annotated[int, msgspec.Meta(ge=0, le=100_000)]
"""How many entries to skip; ``before`` goes further."""


class Pagination(Body, frozen=True, kw_only=True):
    limit: int
    offset: int
    total: int | None = None


class TimeRange(Body, frozen=True, kw_only=True):
    from_: datetime = msgspec.field(name="from")
    to: datetime


@overload
def in_utc(moment: datetime) -> datetime: ...
@overload
def in_utc(moment: None) -> None: ...
def in_utc(moment: datetime | None) -> datetime | None:
    """A time without a zone is in UTC: Queen's clients send such times."""
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)
