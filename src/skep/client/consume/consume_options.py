"""What a consumer asks for with every pop."""

from dataclasses import dataclass
from datetime import datetime

from skep.errors import Invalid
from skep.model.name import check_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeOptions:
    """What every pop of a consumer asks for."""

    queue: str
    group: str
    batch: int
    partitions: int
    wait: float
    lease_seconds: int | None
    subscription_mode: str
    subscription_from: datetime | None
    max_backoff: float
    """Maximum delay between pops, in seconds, while the server is unavailable."""

    def __post_init__(self) -> None:
        check_name("queue", self.queue)
        check_name("group", self.group)
        if self.max_backoff < 0:
            raise Invalid("max_backoff", "must not be negative")
