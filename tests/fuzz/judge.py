"""Rules that hold of every store alone, so that a fault which all of them share is found, too."""

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.fuzz.messages import Transact
from tests.fuzz.operation import Operation, Plain, is_refused


class Broken(NamedTuple):
    rule: str
    explanation: str


@dataclass
class Judge:
    """Listens to the answers of one store."""

    store: str
    first: dict[str, Plain] = field(default_factory=dict)

    def hear(self, operation: Operation, answer: Plain) -> Broken | None:
        if isinstance(operation, Transact):
            return self._hear_transaction(operation, answer)
        return None

    def _hear_transaction(self, operation: Transact, answer: Plain) -> Broken | None:
        """A repeated transaction gets the receipts of the first time."""
        if operation.key is None or answer == "skipped" or answer[1:2] == ("Unavailable",):
            return None
        first = self.first.get(operation.key)
        if first is None:
            if not is_refused(answer):
                self.first[operation.key] = answer
            return None
        if is_refused(answer) or answer[0] != first[0] or not answer[2]:
            return Broken(
                "transact.repeated",
                f"{operation}\nwas answered {first!r}, and then {answer!r}",
            )
        return None
