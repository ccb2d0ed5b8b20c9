"""What an operation of the fuzz is, and what is known when the next one is drawn."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

from skep import Delivery, Draft, Message, Settlement
from skep.errors import SkepError
from skep.model.message import Receipt
from skep.model.operation import Status
from tests.fuzz.round_options import Options
from tests.fuzz.stores_under_test import Seat, StoreUnderTest

_RANDOM = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
"""An id that was given to a message which was kept aside during maintenance."""

Plain: TypeAlias = Any
"""An answer without what may differ between stores: ids, numbers, the order of partitions."""


STATUSES: tuple[Status, ...] = ("completed", "completed", "failed", "retry", "dead_letter")


class Skipped(Exception):
    """The operation refers to something that this store never handed out."""


class Held(NamedTuple):
    """A delivery of the reference, under its label."""

    label: str
    queue: str
    group: str
    places: tuple[tuple[str, int], ...]


@dataclass
class World:
    """What is worth asking for next; learnt from the answers of the reference."""

    options: Options
    deliveries: list[Held] = field(default_factory=list)
    pushed: dict[tuple[str, str], int] = field(default_factory=dict)
    keyed: "list[Operation]" = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    """Labels of deliveries of which something was said to have failed."""
    touched: set[str] = field(default_factory=set)
    """Labels of deliveries that something was asked about."""
    drawn: int = 0

    def label(self, letter: str) -> str:
        self.drawn += 1
        return f"{letter}{self.drawn}"

    def delivery(self, random: Random) -> Held | None:
        """Usually one of the newest; now and then one that is long over."""
        if not self.deliveries:
            return None
        recent = self.deliveries[-3:] if random.random() < 0.8 else self.deliveries
        held = random.choice(recent)
        self.touched.add(held.label)
        return held

    def untouched(self, random: Random) -> Held | None:
        """A delivery of which nothing is settled yet."""
        fresh = [held for held in self.deliveries if held.label not in self.touched]
        if not fresh:
            return None
        held = random.choice(fresh)
        self.touched.add(held.label)
        return held

    def verdict(self, random: Random, label: str) -> Status:
        """What is said of a message of a delivery."""
        status = random.choice(STATUSES)
        if status != "completed":
            self.refused.add(label)
        return status

    def some(self, random: Random, held: Held) -> tuple[tuple[str, int], ...]:
        """Some messages of a delivery, in any order."""
        return tuple(random.sample(held.places, random.randint(1, len(held.places))))


class Operation(ABC):
    """One request: how it is drawn, how it is made, and what of its answer must be equal."""

    kind: ClassVar[str]
    weight: ClassVar[int] = 2
    alike: ClassVar[frozenset[str]] = frozenset()
    """Refusals of which several may apply at once: which is named is left open."""

    @property
    def name(self) -> str:
        """What it is called where failures are grouped."""
        return self.kind

    @classmethod
    @abstractmethod
    def draw(cls, random: Random, world: World) -> Self | None:
        """One that makes sense now; None if there is none."""

    @abstractmethod
    async def apply(self, seat: Seat) -> Any:
        """Make the request; raises what the server answers."""

    def normal(self, answer: Any) -> Plain:
        return answer

    def parts(self, expected: Plain, actual: Plain) -> bool:
        """Whether the answers differ for a reason that is no fault: the round ends there."""
        return False

    def difference(self, expected: Plain, actual: Plain) -> str:
        """How two answers differ, in a word that other differences of the same cause share."""
        first, second = _sort(expected), _sort(actual)
        return "answer" if first == second else f"{first}>{second}"

    def learn(self, answer: Plain, world: World) -> None:  # noqa: B027 - most learn nothing
        """Remember what the reference answered, for later draws."""

    def __str__(self) -> str:
        values = (f"{name}={_brief(value)}" for name, value in vars(self).items())
        return f"{self.kind} {' '.join(values)}"


class Fault(Operation):
    """Something that happens to a store and its servers between two requests."""

    async def apply(self, seat: Seat) -> None:
        raise AssertionError("a fault is no request")

    @abstractmethod
    def strike(self, place: StoreUnderTest, server: int) -> None: ...


class Step(NamedTuple):
    """An operation, and the server that is asked where there are several."""

    operation: Operation
    server: int

    def __str__(self) -> str:
        return f"server {self.server}: {self.operation}"


def _brief(value: Any) -> str:
    if isinstance(value, Draft):
        return f"{value.partition}:{value.transaction_id or '-'}:{value.payload!r}"
    if isinstance(value, Operation):
        return f"<{value}>"
    if isinstance(value, tuple):
        return f"({' '.join(map(_brief, value))})"
    return str(value)


async def outcome(operation: Operation, seat: Seat) -> Plain:
    """The comparable answer, also if it is a refusal."""
    try:
        return operation.normal(await operation.apply(seat))
    except Skipped:
        return "skipped"
    except SkepError as error:
        if type(error).__name__ in operation.alike:
            return "refused", "|".join(sorted(operation.alike)), None
        return plain_error(error)


def plain_error(error: SkepError) -> Plain:
    return "refused", type(error).__name__, getattr(error, "field", None)


def is_refused(answer: Plain) -> bool:
    return isinstance(answer, tuple) and answer[:1] == ("refused",)


def _sort(answer: Plain) -> str:
    if is_refused(answer):
        return str(answer[1])
    return "nothing" if answer is None else "ok"


def delivery_of(seat: Seat, label: str) -> Delivery:
    if label not in seat.book.deliveries:
        raise Skipped
    return seat.book.deliveries[label]


def messages_at(delivery: Delivery, places: Sequence[tuple[str, int]]) -> list[Message]:
    by_place = {(m.partition, m.offset): m for m in delivery.messages}
    if not all(place in by_place for place in places):
        raise Skipped
    return [by_place[place] for place in places]


def plain_message(message: Message) -> Plain:
    return (
        message.partition,
        message.offset,
        message.payload,
        # What is kept aside during maintenance gets a random id.
        "given"
        if message.chosen_id and _RANDOM.fullmatch(message.chosen_id)
        else message.chosen_id,
        message.created_at,
        message.attempt,
    )


def plain_delivery(delivery: Delivery | None) -> Plain:
    if delivery is None:
        return None
    return (
        delivery.group,
        delivery.lease_id is not None,
        delivery.expires_at,
        delivery.lease_seconds,
        delivery.truncated,
        tuple(sorted(map(plain_message, delivery.messages))),
    )


def plain_settlement(done: Settlement) -> Plain:
    return done.completed, done.dead_letters, done.retry_at, done.released


def plain_receipts(receipts: Sequence[Receipt]) -> Plain:
    return tuple((r.partition, r.offset, r.duplicate) for r in receipts)
