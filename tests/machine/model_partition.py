"""The model's partition: a list of messages, and what has been taken away from it."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple


class Entry(NamedTuple):
    payload: bytes
    chosen_id: str | None
    created_at: int


@dataclass
class Log:
    """Every message ever pushed, in order; ``start`` and ``deleted`` say which are gone."""

    entries: list[Entry] = field(default_factory=list)
    pushes: list[int] = field(default_factory=list)
    """Where each push begins: what was pushed together is removed together."""
    deleted: set[int] = field(default_factory=set)
    known: dict[str, int] = field(default_factory=dict)
    start: int = 0

    @property
    def end(self) -> int:
        return len(self.entries)

    @property
    def kept(self) -> dict[int, Entry]:
        return {
            offset: self.entries[offset]
            for offset in range(self.start, self.end)
            if offset not in self.deleted
        }

    def append(self, entries: Iterable[Entry], *, replay: bool = False) -> list[tuple[int, bool]]:
        """The place of each entry, and whether it was there already."""
        first, places = self.end, []
        for entry in entries:
            earlier = self.known.get(entry.chosen_id) if entry.chosen_id else None
            if earlier is not None and not replay:
                places.append((earlier, True))
                continue
            places.append((self.end, False))
            if entry.chosen_id:
                self.known[entry.chosen_id] = self.end
            self.entries.append(entry)
        if self.end > first:
            self.pushes.append(first)
        return places

    def delete(self, offset: int) -> bool:
        if not self.start <= offset < self.end or offset in self.deleted:
            return False
        self._forget_id(offset)
        self.deleted.add(offset)
        return True

    def truncate(self, before: int) -> int:
        """Remove the pushes that lie wholly before an offset; return how many messages."""
        ends = [*self.pushes[1:], self.end]
        start = max([end for end in ends if end <= before], default=0)
        removed = max(0, start - self.start)
        for offset in range(self.start, self.start + removed):
            self._forget_id(offset)
        self.start += removed
        return removed

    def offset_at(self, moment: int) -> int:
        """The first offset that was pushed at ``moment`` or later."""
        return bisect_right([entry.created_at for entry in self.entries], moment - 1)

    def _forget_id(self, offset: int) -> None:
        chosen = self.entries[offset].chosen_id
        if chosen and offset not in self.deleted and self.known.get(chosen) == offset:
            del self.known[chosen]
