"""What an acknowledgement does to a group's state in a partition. Pure: no clock, no store.

* Completed messages are kept as ranges; the cursor moves only over what is contiguous.
* A batch of which every message failed is delivered again, later, as long as it may be retried;
  then each of its messages becomes a dead letter.
* If some of a batch is completed, what failed becomes dead letters at once, and the rest is done.
* While that is open - some failed, none is completed, some are not reported - it is remembered.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from skep.core.rules import lease as leases
from skep.core.rules.retry import retry_at
from skep.errors import Invalid
from skep.model import ranges
from skep.model.consumer import ConsumerState, Failure
from skep.model.name import Instant, Offset
from skep.model.operation import Verdict
from skep.model.queue import QueueOptions

RETRIES_EXHAUSTED = "retries exhausted"
MAX_ERROR = 2000


@dataclass(slots=True)
class Settled:
    """The next state, and what goes with it."""

    state: ConsumerState
    completed: int = 0
    dead: list[Failure] = field(default_factory=list)
    retry_at: Instant | None = None
    attempt: int = 0

    @property
    def released(self) -> bool:
        return self.state.lease is None


def settle(
    consumer: ConsumerState,
    verdicts: Iterable[Verdict],
    *,
    options: QueueOptions,
    now: Instant,
    jitter: float,
) -> Settled:
    """Apply verdicts on messages of the run to a state whose lease is live."""
    lease = consumer.lease
    if lease is None:
        raise ValueError("settle needs a lease")
    completed, failed, dead, give_back = _sort(consumer, verdicts)
    count = lease.completed + len(completed)
    failures = {failure.offset: failure for failure in (*consumer.failed, *failed)}
    for offset in (*completed, *(failure.offset for failure in dead)):
        failures.pop(offset, None)
    if count:
        dead += failures.values()
        failures.clear()
    acked = ranges.union(
        consumer.acked,
        ranges.from_offsets([*completed, *(failure.offset for failure in dead)]),
    )
    state = replace(
        consumer,
        version=consumer.version + 1,
        acked=acked,
        lease=replace(lease, completed=count),
        failed=tuple(failures.values()),
        messages_consumed=consumer.messages_consumed + len(completed),
        last_consumed_at=now,
    )
    settled = Settled(state, len(completed), dead, attempt=consumer.attempt)
    if give_back:
        _advance(settled)
        if settled.state.lease:
            settled.state = replace(leases.release(settled.state), version=state.version)
        return settled
    if failures and not any(
        offset not in failures for offset in ranges.missing(acked, state.cursor, state.run_end)
    ):
        _fail(settled, options, now, jitter)
    _advance(settled)
    return settled


def complete_all(consumer: ConsumerState, *, now: Instant) -> Settled:
    """Settle a whole run as completed, without naming its messages."""
    dead = list(consumer.failed)
    done = ranges.overlap(consumer.acked, consumer.cursor, consumer.run_end)
    count = max(0, consumer.run_end - consumer.cursor) - done - len(dead)
    state = replace(
        consumer,
        version=consumer.version + 1,
        acked=ranges.union(consumer.acked, ((consumer.cursor, consumer.run_end),)),
        failed=(),
        messages_consumed=consumer.messages_consumed + count,
        last_consumed_at=now,
    )
    settled = Settled(state, count, dead, attempt=consumer.attempt)
    _advance(settled)
    return settled


def _sort(
    consumer: ConsumerState, verdicts: Iterable[Verdict]
) -> tuple[list[Offset], list[Failure], list[Failure], bool]:
    """Verdicts by kind, without those on messages that are settled already."""
    completed: list[Offset] = []
    failed: list[Failure] = []
    dead: list[Failure] = []
    give_back = False
    seen: set[Offset] = set()
    for index, verdict in enumerate(verdicts):
        offset = verdict.offset
        if offset >= consumer.run_end:
            raise Invalid(
                f"verdicts[{index}].offset", f"message {offset} is not held by this lease"
            )
        if offset in seen:
            raise Invalid(
                f"verdicts[{index}].offset", f"message {offset} is settled twice in one call"
            )
        seen.add(offset)
        if offset < consumer.cursor or ranges.contains(consumer.acked, offset):
            continue
        error = verdict.error[:MAX_ERROR]
        if verdict.status == "completed":
            completed.append(offset)
        elif verdict.status == "failed":
            failed.append(Failure(offset, error or RETRIES_EXHAUSTED))
        elif verdict.status == "dead_letter":
            dead.append(Failure(offset, error or "given up by the consumer"))
        else:
            give_back = True
    return completed, failed, dead, give_back


def _fail(settled: Settled, options: QueueOptions, now: Instant, jitter: float) -> None:
    """The whole delivery failed: retry it later, or dead-letter all of it."""
    state = settled.state
    settled.retry_at = retry_at(options, retries=state.retries, now=now, jitter=jitter)
    if settled.retry_at is None:
        settled.dead += state.failed
        lost = ranges.from_offsets(failure.offset for failure in state.failed)
        settled.state = replace(state, acked=ranges.union(state.acked, lost), failed=())
    else:
        settled.state = replace(
            state, retries=state.retries + 1, ready_at=settled.retry_at, lease=None, failed=()
        )


def _advance(settled: Settled) -> None:
    """Move the cursor over what is contiguous; the lease ends with the run."""
    state = settled.state
    cursor, acked = ranges.advance(state.cursor, state.acked)
    if cursor < state.run_end:
        settled.state = replace(state, cursor=cursor, acked=acked)
        return
    settled.state = replace(
        state,
        cursor=cursor,
        acked=acked,
        run_end=0,
        attempt=0,
        retries=0,
        ready_at=0,
        oldest_at=state.lease.next_at if state.lease else state.oldest_at,
        lease=None,
        failed=(),
        batches_consumed=state.batches_consumed + 1,
    )
