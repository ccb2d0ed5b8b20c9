"""Rules that write: pushes and transactions."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from skep import Ack, Delivery, Push, Transaction, Verdict
from skep.errors import KeyReused, LeaseLost
from skep.model.message import Receipt
from skep.model.operation import Operation
from tests.machine.comparison import QUEUE
from tests.machine.machine_state import drafts, picks, puts
from tests.machine.model import Got, Lost, Model, Once, Put
from tests.machine.model_consumer import Report, Settled
from tests.machine.settle_rules import SettlingMachine

keys = st.none() | st.sampled_from(["k1", "k2", "k3"])


ENOUGH = 12
"""Messages that wait for a group before no more are pushed: there is something to do."""


@dataclass(frozen=True)
class Asked:
    """A transaction as somebody asks for it, perhaps again."""

    delivery: Delivery | None
    offsets: dict[str, tuple[int, ...]] | None
    """By partition what is completed; None for the whole delivery."""
    puts: tuple[Put, ...]
    key: str | None
    operations: list[Operation] = field(compare=False, default_factory=list)

    @property
    def reports(self) -> dict[str, list[Report]] | None:
        if self.offsets is None:
            return None
        return {
            name: [Report(offset, "completed") for offset in offsets]
            for name, offsets in self.offsets.items()
        }


class ProducingMachine(SettlingMachine):
    def __init__(self) -> None:
        super().__init__()
        self.transactions: list[Asked] = []

    @rule(some=puts)
    @precondition(lambda self: self.model.waiting < ENOUGH)
    def push(self, some: list[Put]) -> None:
        receipts = self.subject.run(self.subject.broker.push(QUEUE, drafts(some)))

        assert got(receipts) == self.model.push(some, self.now)

    @rule(pick=picks, some=puts, key=keys, chosen=st.none() | st.lists(picks, min_size=1))
    @precondition(lambda self: self.deliveries)
    def ack_and_push(
        self, pick: int, some: list[Put], key: str | None, chosen: list[int] | None
    ) -> None:
        delivery = (
            self.pick_delivery(pick, live=True) or self.deliveries[pick % len(self.deliveries)]
        )
        self._transact(_asked(delivery, chosen, some, key))

    @rule(pick=picks, some=puts)
    @precondition(lambda self: self.has_delivery(live=False))
    def transact_under_a_lost_lease(self, pick: int, some: list[Put]) -> None:
        if delivery := self.pick_delivery(pick, live=False):
            self._transact(_asked(delivery, None, some, None))

    @rule(pick=picks)
    @precondition(lambda self: self.transactions)
    def repeat_a_transaction(self, pick: int) -> None:
        self._transact(self.transactions[pick % len(self.transactions)])

    def _transact(self, asked: Asked) -> None:
        known = self.model.once.get(asked.key) if asked.key else None
        call = self.subject.broker.transact(asked.operations, idempotency_key=asked.key)
        try:
            done = self.subject.run(call)
        except KeyReused:
            assert known is not None
            assert known.asked != asked
            return
        except LeaseLost:
            assert known is None
            self.check_lost(asked.delivery, asked.reports)
            return
        if known is None:
            self._check_first(asked, done)
        else:
            assert known.asked == asked, "a key was used for two transactions"
            assert (got(*done.receipts), done.repeated) == (known.got, True)

    def _check_first(self, asked: Asked, done: Transaction) -> None:
        held = self.held_by(asked.delivery)
        expected, settled = apply(self.model, asked, self.now)
        assert not done.repeated
        assert got(*done.receipts) == expected
        if asked.delivery:
            self.check_settlement(asked.delivery, done.settlements[0], settled, held)
        if asked.key:
            self.transactions.append(asked)


def apply(model: Model, asked: Asked, now: int) -> tuple[list[Got], dict[str, Settled]]:
    settled: dict[str, Settled] = {}
    if asked.delivery:
        try:
            settled = model.settle(str(asked.delivery.lease_id), asked.reports, now)
        except Lost:
            raise AssertionError("a transaction went through under a lost lease") from None
    receipts = model.push(asked.puts, now)
    if asked.key:
        model.once[asked.key] = Once(asked, receipts, now)
    return receipts, settled


def got(*receipts: Sequence[Receipt]) -> list[Got]:
    return [Got(r.partition, r.offset, r.duplicate) for some in receipts for r in some]


def _asked(
    delivery: Delivery | None, chosen: list[int] | None, some: Sequence[Put], key: str | None
) -> Asked:
    operations: list[Operation] = [Push(QUEUE, drafts(some))]
    offsets: dict[str, tuple[int, ...]] | None = None
    if delivery and delivery.lease_id:
        verdicts = None
        if chosen is not None:
            messages = delivery.messages
            numbers = dict.fromkeys(number % len(messages) for number in chosen)
            named = [messages[number] for number in numbers]
            offsets = {}
            for message in named:
                earlier = offsets.get(message.partition, ())
                offsets[message.partition] = (*earlier, message.offset)
            verdicts = [Verdict(message.partition_number, message.offset) for message in named]
        operations.insert(0, Ack(delivery.lease_id, verdicts))
    return Asked(delivery, offsets, tuple(some), key, operations)
