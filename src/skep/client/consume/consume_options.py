"""What a consumer asks for again and again, and what it says of messages it leaves."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from skep.errors import Invalid
from skep.model.message import Message
from skep.model.name import check_name
from skep.model.operation import Verdict, verdicts_on

NOT_BEGUN = "not begun, because a message before it failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeOptions:
    queue: str
    group: str
    batch: int
    partitions: int
    wait: float
    lease_seconds: int | None
    subscription_mode: str
    subscription_from: datetime | None
    max_backoff: float
    """The longest pause, in seconds, while the server cannot be reached."""

    def __post_init__(self) -> None:
        check_name("queue", self.queue)
        check_name("group", self.group)
        if self.max_backoff < 0:
            raise Invalid("max_backoff", "must not be negative")


def describe(error: BaseException) -> str:
    """An error as the reason of a dead letter."""
    return f"{type(error).__name__}: {error}"


def verdicts_on_leaving(
    current: Message | None,
    left: Sequence[Message],
    completed: Collection[int],
    error: BaseException | None,
) -> list[Verdict]:
    """What becomes of messages when a loop over them ends: the one in hand and those behind it.

    An error fails the one in hand. If nothing of its partition was ``completed`` before, all that
    was delivered of it has failed: so it counts, and comes again later, as ADR 5 has it. Whatever
    else is there is given back.
    """
    rest = [*([current] if current else []), *left]
    if current is None or not isinstance(error, Exception):
        return verdicts_on(rest, "retry") if rest else []
    number = current.partition_number
    verdicts = verdicts_on([current], "failed", describe(error))
    for message in left:
        with_it = message.partition_number == number and number not in completed
        verdicts += verdicts_on([message], *(("failed", NOT_BEGUN) if with_it else ("retry",)))
    return verdicts
