"""What one seed decides about a round."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from random import Random
from typing import Self

QUEUES = ("orders", "parcels")
PARTITIONS = ("a", "b", "c", "d")
GROUPS = ("billing", "mailing", "audit")


@dataclass(frozen=True)
class Options:
    """Everything that does not change during a round."""

    servers: int
    queues: Sequence[str]
    partitions: Sequence[str]
    groups: Sequence[str]
    lease_seconds: Sequence[int]
    batches: Sequence[int]
    chosen_ids: float
    """The share of messages that have one."""
    encryption: bool
    retention: bool
    cached: bool
    """Whether servers remember what was pushed through them."""
    kinds: Sequence[str]
    """The operations that occur."""
    unheard: Sequence[str]
    """Operations that a server answers without having heard of the others before."""
    steps: int

    @classmethod
    def draw(cls, random: Random, kinds: Sequence[str]) -> Self:
        return cls(
            servers=random.choice([1, 2, 2, 2, 3]),
            queues=QUEUES[: random.randint(1, 2)],
            partitions=PARTITIONS[: random.randint(1, 4)],
            groups=GROUPS[: random.randint(1, 3)],
            lease_seconds=random.choice([(1, 10), (10,), (30, 300)]),
            batches=random.choice([(1, 2, 5), (3, 10), (30,)]),
            chosen_ids=random.choice([0.0, 0.3, 1.0]),
            encryption=random.random() < 0.5,
            retention=random.random() < 0.3,
            cached=random.random() < 0.4,
            kinds=_some(random, kinds),
            unheard=_unheard(random, kinds),
            steps=random.choice([20, 40, 80]),
        )

    def line(self) -> str:
        return " ".join(f"{each.name}={brief(getattr(self, each.name))}" for each in fields(self))


ALWAYS = ("push", "pop")


def _some(random: Random, kinds: Sequence[str]) -> Sequence[str]:
    """Most rounds leave something out: so that what occurs occurs more often."""
    share = random.choice([0.2, 0.4, 1.0])
    return tuple(kind for kind in kinds if kind in ALWAYS or random.random() < share)


def _unheard(random: Random, kinds: Sequence[str]) -> Sequence[str]:
    """All, one, or none: with one, a difference is most likely its fault."""
    luck = random.random()
    if luck < 0.3:
        return tuple(kinds)
    return (random.choice(kinds),) if luck < 0.8 else ()


def brief(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    return str(value)
