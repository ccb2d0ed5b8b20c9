"""What an application pushed in a transaction of its own, before it is appended."""

import msgspec


class OutboxRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the outbox; ``payload`` is None if it is larger than whoever asked can take."""

    number: int
    queue: str
    partition: str
    transaction_id: str | None
    size: int
    payload: bytes | None
