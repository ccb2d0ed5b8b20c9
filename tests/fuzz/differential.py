"""The same operations on every store: every answer and the content in the end must be equal."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from skep.model.name import to_datetime
from tests.fuzz import (
    admin_operations as operating,
    concurrent_operations as together,
    message_operations as messages,
    store_content as looking,
)
from tests.fuzz.invariants import InvariantChecker
from tests.fuzz.operation import Fault, Operation, Plain, Step, World, outcome
from tests.fuzz.round_options import Options
from tests.fuzz.stores_under_test import Seat, StoreUnderTest, places

OPERATIONS: tuple[type[Operation], ...] = (
    *messages.OPERATIONS,
    *operating.OPERATIONS,
    *together.OPERATIONS,
    *looking.OPERATIONS,
)
KINDS = tuple(operation.kind for operation in OPERATIONS)
_MOMENT = re.compile(r"datetime\.datetime\(([0-9, ]+), tzinfo=datetime.timezone.utc\)")
LONGEST = 600
"""Characters of an answer that are shown."""
PATIENCE = 15.0
"""Seconds of real time after which an operation will never be answered."""


@dataclass(frozen=True)
class Difference:
    """The first thing in which a store differs; ``rule`` is what it has in common with others."""

    rule: str
    explanation: str
    step: int


@dataclass(frozen=True)
class Round:
    options: Options
    steps: Sequence[Step]
    difference: Difference | None
    requests: int


def play(seed: str) -> Round:
    """Draw a round from its seed, and stop at the first difference."""
    random = Random(seed)
    options = Options.draw(random, KINDS)
    world = World(options)
    steps: list[Step] = []
    with places(options) as all_places:
        runner = _Runner(all_places, options)
        for _ in range(options.steps):
            step = _draw(random, world)
            steps.append(step)
            if found := runner.take(step, world):
                difference = None if found is PARTED else found
                return Round(options, steps, difference, runner.requests)
        return Round(options, steps, runner.compare_contents(), runner.requests)


def replay(options: Options, steps: Sequence[Step]) -> Difference | None:
    """Take given steps, and say what differs first."""
    world = World(options)
    with places(options) as all_places:
        runner = _Runner(all_places, options)
        for step in steps:
            if found := runner.take(step, world):
                return None if found is PARTED else found
        return runner.compare_contents()


def _draw(random: Random, world: World) -> Step:
    allowed = [each for each in OPERATIONS if each.kind in world.options.kinds]
    weights = [each.weight for each in allowed]
    while True:
        (kind,) = random.choices(allowed, weights)
        operation = kind.draw(random, world)
        if operation is not None:
            return Step(operation, random.randrange(world.options.servers))


PARTED = Difference("", "the stores have parted ways without a fault", 0)


class _Runner:
    def __init__(self, all_places: Sequence[StoreUnderTest], options: Options) -> None:
        self._places = all_places
        self._options = options
        self._judges = [InvariantChecker(place.name) for place in all_places]
        self._taken = 0
        self.requests = 0

    def take(self, step: Step, world: World) -> Difference | None:
        self._taken += 1
        if isinstance(step.operation, Fault):
            for place in self._places:
                step.operation.strike(place, step.server)
            return None
        answers = [self._ask(place, step) for place in self._places]
        step.operation.learn(answers[0], world)
        for judge, answer in zip(self._judges, answers, strict=True):
            now = to_datetime(self._places[0].clock.now())
            if broken := judge.hear(step.operation, answer, now):
                return self._difference(f"{judge.store}.{broken.rule}", broken.explanation)
        for place, answer in zip(self._places[1:], answers[1:], strict=True):
            if answer != answers[0]:
                if step.operation.parts(answers[0], answer):
                    return PARTED
                pair = answers[0], answer
                rule = f"{place.name}.{step.operation.name}.{step.operation.difference(*pair)}"
                return self._difference(rule, _explain(step, place.name, *pair))
        return None

    def compare_contents(self) -> Difference | None:
        """What each server shows in the end, and then what a server shows that has just begun."""
        expected = self._content(self._places[0], 0)
        for place in self._places[1:]:
            for server in range(len(place.servers)):
                if found := self._compare(place, server, expected, "shown"):
                    return found
            place.restart(0, crash=False)
            if found := self._compare(place, 0, expected, "stored"):
                return found
        return None

    def _compare(
        self, place: StoreUnderTest, server: int, expected: dict[str, Plain], how: str
    ) -> Difference | None:
        actual = self._content(place, server)
        for aspect, value in expected.items():
            if actual[aspect] != value:
                rule = f"{place.name}.{how}.{aspect.rpartition('.')[2]}"
                where = f"in the end server {server} of {place.name} shows other {aspect}"
                return self._difference(rule, f"{where}:\n{_apart(value, actual[aspect])}")
        return None

    def _content(self, place: StoreUnderTest, server: int) -> dict[str, Plain]:
        seat = Seat(place, server)
        place.run(_hear(seat))
        return place.run(looking.content(seat, self._options.queues))

    def _ask(self, place: StoreUnderTest, step: Step) -> Plain:
        self.requests += 1
        return place.run(self._outcome(Seat(place, step.server), step.operation))

    async def _outcome(self, seat: Seat, operation: Operation) -> Plain:
        try:
            async with asyncio.timeout(PATIENCE):
                if operation.kind not in self._options.unheard:
                    await _hear(seat)
                return await outcome(operation, seat)
        except TimeoutError:
            return "refused", "NoAnswer", None

    def _difference(self, rule: str, explanation: str) -> Difference:
        return Difference(rule, explanation, self._taken)


async def _hear(seat: Seat) -> None:
    """Let every server know what the others did, as a moment of rest would."""
    for server in seat.place.servers:
        await server.broker.catch_up()


def _explain(step: Step, store: str, expected: Plain, actual: Plain) -> str:
    return f"{step}\n{store} answers differently:\n{_apart(expected, actual)}"


def _apart(expected: Plain, actual: Plain) -> str:
    """Only what differs: of two lists what is in one alone, of two tuples the positions."""
    if isinstance(expected, list) and isinstance(actual, list):
        missing = [one for one in expected if one not in actual]
        extra = [one for one in actual if one not in expected]
        return f"  expected {_short(missing)}\n  and got  {_short(extra)}"
    if isinstance(expected, tuple) and isinstance(actual, tuple) and len(expected) == len(actual):
        apart = [
            n for n, pair in enumerate(zip(expected, actual, strict=True)) if pair[0] != pair[1]
        ]
        if len(apart) == 1 and isinstance(expected[apart[0]], tuple):
            return _apart([*expected[apart[0]]], [*actual[apart[0]]])
        expected, actual = ({n: one[n] for n in apart} for one in (expected, actual))
    return f"  expected {_short(expected)}\n  and got  {_short(actual)}"


def _short(answer: Plain) -> str:
    text = re.sub(
        r"datetime\.datetime\(([0-9, ]+), tzinfo=datetime.timezone.utc\)", r"<\1>", repr(answer)
    )
    return text if len(text) < LONGEST else f"{text[:LONGEST]}…"
