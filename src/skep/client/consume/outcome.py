"""The outcome of messages that fail or that a consumer does not finish."""

import logging
from collections.abc import Collection, Sequence

from skep.model.message import Message
from skep.model.operation import Verdict, verdicts_on

NOT_STARTED = "not started, because an earlier message failed"

_log = logging.getLogger("skep.consumer")


def describe(error: BaseException) -> str:
    """Return an error as the reason of a dead letter."""
    return f"{type(error).__name__}: {error}"


def verdicts_on_failure(messages: Sequence[Message], error: Exception) -> list[Verdict]:
    """Log that a handler raised, and return its messages as failed."""
    first = messages[0]
    _log.error(
        "handler failed: queue=%s partition=%s offset=%d messages=%d",
        first.queue,
        first.partition,
        first.offset,
        len(messages),
        exc_info=error,
    )
    return verdicts_on(messages, "failed", describe(error))


def verdicts_on_exit(
    current: Message | None,
    remaining: Sequence[Message],
    completed: Collection[int],
    error: BaseException | None,
) -> list[Verdict]:
    """Return the outcome of the current and the remaining messages when a loop ends.

    An error fails the current message. If no message of its partition was ``completed`` before,
    the whole run of that partition has failed and is retried as one, as ADR 5 has it. All other
    messages are released for redelivery.
    """
    unfinished = [*([current] if current else []), *remaining]
    if current is None or not isinstance(error, Exception):
        return verdicts_on(unfinished, "retry") if unfinished else []
    number = current.partition_number
    verdicts = verdicts_on([current], "failed", describe(error))
    for message in remaining:
        fails_too = message.partition_number == number and number not in completed
        verdicts += verdicts_on([message], *(("failed", NOT_STARTED) if fails_too else ("retry",)))
    return verdicts
