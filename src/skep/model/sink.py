"""What a sink hands over before it is published: rows of columns, and the stages they lie in."""

from collections.abc import Sequence

import msgspec


class StagedRows(msgspec.Struct, frozen=True, kw_only=True):
    """Messages side by side, as they were sent. A column that was not sent is ``None``."""

    payloads: Sequence[bytes | None]
    queues: Sequence[str | None] | None = None
    partitions: Sequence[str | None] | None = None
    transaction_ids: Sequence[str | None] | None = None
    trace_ids: Sequence[str | None] | None = None

    def __len__(self) -> int:
        return len(self.payloads)


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """What one task wrote: so many chunks, numbered from 0, with so many rows together."""

    stage: str
    chunks: int
    rows: int


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """``duplicate`` if the version had been published before: then no row was, this time."""

    duplicate: bool
    rows: int
