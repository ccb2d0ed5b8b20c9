"""What one seed decides about a concurrent round."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from random import Random
from typing import Self

from tests.fuzz.round_options import brief

WAYS = ("all", "each", "each by name", "batch by name", "some", "fail", "extend")
"""How a delivery is settled; some of a delivery is left until its lease has run out."""
DATABASE_FAULTS = ("terminate", "restart database", "pause database", "clock")
SERVER_FAULTS = ("kill", "stop")
LOAD_SECONDS = 3.0


@dataclass(frozen=True)
class LoadOptions:
    store: str
    servers: int
    workers: int
    """Processes that one server has on its port."""
    lease_seconds: int
    batches: Sequence[int]
    partitions: Sequence[str]
    groups: Sequence[str]
    producers: int
    consumers: int
    """For each group."""
    chosen_ids: float
    encryption: bool
    ways: Sequence[str]
    give_ups: bool
    seeks: bool
    alone: bool
    """Whether somebody uses queues of his own, and knows what he must be answered."""
    faults: Sequence[str]
    seconds: float

    @classmethod
    def draw(cls, random: Random) -> Self:
        store = random.choice(["rocksdb", "postgres", "postgres"])
        servers = 1 if store == "rocksdb" else random.choice([1, 2, 2, 3])
        possible = SERVER_FAULTS if store == "rocksdb" else (*SERVER_FAULTS, *DATABASE_FAULTS)
        return cls(
            store=store,
            servers=servers,
            workers=2 if store == "postgres" and servers == 1 and random.random() < 0.7 else 1,
            lease_seconds=random.choice([1, 2]),
            batches=random.choice([(1,), (1, 10), (5, 30)]),
            partitions=[f"p{n}" for n in range(random.choice([1, 3, 12]))],
            groups=["billing", "mailing"][: random.randint(1, 2)],
            producers=random.randint(1, 3),
            consumers=random.randint(1, 2),
            chosen_ids=random.choice([0.0, 0.5, 1.0]),
            encryption=random.random() < 0.3,
            ways=random.sample(WAYS, random.randint(1, 4)),
            give_ups=random.random() < 0.5,
            seeks=random.random() < 0.4,
            alone=random.random() < 0.7,
            faults=random.sample(possible, random.choice([0, 0, 1, 2])),
            seconds=LOAD_SECONDS,
        )

    def line(self) -> str:
        return " ".join(f"{each.name}={brief(getattr(self, each.name))}" for each in fields(self))
