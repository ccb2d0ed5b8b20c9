"""Whether the broker and the model say the same, as far as anybody can see."""

from skep import Broker
from skep.model.stats import PartitionLag
from tests.machine.broker_driver import BrokerDriver
from tests.machine.model import Letter, Model
from tests.machine.model_consumer import ModelConsumer
from tests.support.expected_totals import check_totals

QUEUE = "orders"
PAGE = 1000


def compare(subject: BrokerDriver, model: Model) -> None:
    """Ends, backlogs, leases, attempts, dead letters, counters and totals."""
    broker, now = subject.broker, subject.clock.now()
    partitions = subject.run(broker.queues.partitions(QUEUE))
    ends = {p.name: (p.start, p.end) for p in partitions if p.end}
    assert ends == {name: (log.start, log.end) for name, log in model.logs.items() if log.end}
    assert {lag.group for lag in subject.run(broker.groups.list(QUEUE))} == set(model.groups)
    for group in model.groups:
        lags = lags_of(subject, group)
        for partition, place in model.places(group).items():
            if place.log.end:
                _compare_place(lags[partition], place, now)
    assert subject.run(_letters(broker)) == model.letters
    _compare_counters(subject, model)
    subject.run(check_totals(broker, QUEUE))


def compare_payloads(subject: BrokerDriver, model: Model) -> None:
    """Every message that is kept, byte for byte."""
    for partition, log in model.logs.items():
        page = subject.run(subject.broker.messages.list(QUEUE, partition=partition, limit=PAGE))
        kept = {m.offset: (m.payload, m.chosen_id) for m in page.messages}
        assert kept == {o: (e.payload, e.chosen_id) for o, e in log.kept.items()}


def lags_of(subject: BrokerDriver, group: str) -> dict[str, PartitionLag]:
    found = subject.run(subject.broker.groups.lag(QUEUE, group))
    return {lag.partition: lag for lag in found}


def _compare_place(lag: PartitionLag, place: ModelConsumer, now: int) -> None:
    seen = (lag.end, lag.backlog, lag.leased, lag.attempt)
    assert seen == (place.log.end, place.backlog, place.is_leased(now), place.attempt)
    # It may lag behind what is done, never run ahead of what is not.
    assert lag.cursor <= place.cursor
    assert all(offset in place.done for offset in range(lag.cursor, place.cursor))


async def _letters(broker: Broker) -> dict[tuple[str, str, int], Letter]:
    letters = await broker.dead_letters.list(QUEUE, limit=PAGE)
    found = {
        (letter.group, letter.partition, letter.offset): Letter(
            letter.payload,
            None if letter.transaction_id == str(letter.message_id) else letter.transaction_id,
            letter.error,
            letter.attempts,
        )
        for letter in letters
    }
    assert len(found) == len(letters), "a group has two dead letters of one message"
    return found


def _compare_counters(subject: BrokerDriver, model: Model) -> None:
    broker = subject.broker
    stats = subject.run(broker.queues.stats(QUEUE))
    kept = sum(log.end - log.start for log in model.logs.values())
    behind = [
        sum(lag.end - lag.cursor for lag in lags_of(subject, group).values())
        for group in model.groups
    ]
    assert stats.messages == kept
    assert stats.pushed == sum(log.end for log in model.logs.values())
    assert stats.depth == max(behind, default=kept)
    assert stats.dead_letters == len(model.letters)
