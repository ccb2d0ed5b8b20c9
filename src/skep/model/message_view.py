"""Messages as operators see them: with names, and with their status in each group."""

from datetime import datetime

import msgspec

from skep.model.dead_letter import FailedMessage
from skep.model.message import Message
from skep.model.queue import Queue
from skep.model.stats import MessageStatus
from skep.model.trace import TraceEvent, TraceName


class GroupStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a message in one group; ``dead_letter`` is the number of its dead letter."""

    group: str
    status: MessageStatus
    lease_expires_at: datetime | None = None
    attempt: int = 0
    dead_letter: int | None = None


class MessageView(msgspec.Struct, frozen=True, kw_only=True):
    """A message with its status. The payload is empty unless ``shown``."""

    queue: Queue
    message: Message
    shown: bool
    encrypted: bool
    status: MessageStatus
    group_statuses: list[GroupStatus]


class MessagePage(msgspec.Struct, frozen=True, kw_only=True):
    """Messages, newest first, and where the next page begins: None if this was the last.

    A page may be short although there is another: looking for rare messages ends in time.
    """

    messages: list[MessageView]
    next: str | None


class DeadLetterPage(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters, newest first; ``total`` is how many match on all pages."""

    dead_letters: list[FailedMessage]
    total: int
    next: int | None


class TracedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """An event together with the message that it is about."""

    event: TraceEvent
    message: Message


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Events, newest first; ``total`` is how many there are on all pages."""

    events: list[TracedMessage]
    total: int
    next: int | None


class NamePage(msgspec.Struct, frozen=True, kw_only=True):
    """Names, in order; ``total`` is how many there are on all pages."""

    names: list[TraceName]
    total: int
