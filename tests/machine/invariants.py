"""What must hold of any queue, judged by what was seen of it alone, without a model."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Address = tuple[str, int]
"""A partition and an offset."""


@dataclass
class Held:
    group: str
    addresses: set[Address]
    expires_at: int


@dataclass
class InvariantChecker:
    leases: dict[str, Held] = field(default_factory=dict)
    done: dict[str, set[Address]] = field(default_factory=dict)
    cursors: dict[tuple[str, str], int] = field(default_factory=dict)

    def delivered(
        self, group: str, lease: str | None, addresses: Sequence[Address], *, now: int, until: int
    ) -> None:
        got = set(addresses)
        assert len(got) == len(addresses), "a message came twice in one delivery"
        for partition in {partition for partition, _ in got}:
            offsets = [offset for name, offset in addresses if name == partition]
            assert offsets == sorted(offsets), f"{partition} was not delivered in order"
        again = got & self.done.get(group, set())
        assert not again, f"{group} got what it was done with: {again}"
        for held in self.leases.values():
            both = held.addresses & got
            if held.group == group and held.expires_at > now:
                assert not both, f"{group} holds {both} in two leases"
        if lease is None:
            self.completed(group, got)
        else:
            self.leases[lease] = Held(group, got, until)

    def completed(self, group: str, addresses: Iterable[Address]) -> None:
        self.done.setdefault(group, set()).update(addresses)

    def released(self, lease: str, partitions: Iterable[str]) -> None:
        gone = set(partitions)
        held = self.leases[lease]
        held.addresses = {address for address in held.addresses if address[0] not in gone}

    def extended(self, lease: str, until: int) -> None:
        self.leases[lease].expires_at = max(self.leases[lease].expires_at, until)

    def moved(self, group: str, partitions: Iterable[str]) -> None:
        """A seek, or the end of a group: it starts afresh in these partitions."""
        gone = set(partitions)
        self.done[group] = {a for a in self.done.get(group, set()) if a[0] not in gone}
        for partition in gone:
            self.cursors.pop((group, partition), None)
        for lease, held in self.leases.items():
            if held.group == group:
                self.released(lease, gone)

    def cursor_is(self, group: str, partition: str, cursor: int) -> None:
        before = self.cursors.get((group, partition), 0)
        assert cursor >= before, f"the cursor of {group} in {partition} went back from {before}"
        self.cursors[group, partition] = cursor
