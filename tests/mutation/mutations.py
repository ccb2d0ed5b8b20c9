"""Ways to break the queue on purpose, each with a test that must notice."""

from typing import NamedTuple

MACHINE = "tests/machine/test_machine.py::test_the_broker_in_memory_does_what_the_model_does"
SYNC = (
    "tests/faults/test_sync_before_answer.py"
    "::test_every_answer_comes_after_its_write_and_the_sync_of_it"
)
ORDER = (
    "tests/faults/test_commit_order.py"
    "::test_pushes_of_every_size_are_delivered_in_the_order_of_their_commits"
)
STALE = (
    "tests/store/test_consumer.py"
    "::test_an_update_that_expects_an_older_version_is_stale_and_changes_nothing"
)
DAMAGE = (
    "tests/rocksdb/test_damage.py"
    "::test_damage_in_the_middle_is_refused_even_if_nobody_noted_what_was_synced"
)


class Change(NamedTuple):
    """``old`` stands exactly once in the file."""

    file: str
    old: str
    new: str


class Mutation(NamedTuple):
    name: str
    noticed_by: str
    changes: tuple[Change, ...]


MUTATIONS = (
    Mutation(
        "the cursor jumps over unfinished messages when an ack comes out of order",
        MACHINE,
        (
            Change(
                "core/ack.py",
                "    cursor, acked = ranges.advance(state.cursor, state.acked)\n",
                "    cursor = max([state.cursor, *(stop for _, stop in state.acked)])\n"
                "    acked = ranges.advance(cursor, state.acked)[1]\n",
            ),
        ),
    ),
    Mutation(
        "an ack and an extension are taken after the lease has run out",
        MACHINE,
        (
            Change(
                "model/consumer.py",
                "self.lease if self.lease is not None and self.lease.expires_at > now else None",
                "self.lease",
            ),
        ),
    ),
    Mutation(
        "a commit returns without a sync",
        SYNC,
        (
            Change(
                "store/rocksdb/store.py",
                "            await self._db.sync()\n",
                "",
            ),
        ),
    ),
    Mutation(
        "a state is replaced whatever its version",
        STALE,
        (
            Change(
                "store/round.py",
                "        if (current.version if current else 0) != update.expected:\n"
                "            return Stale()\n",
                "",
            ),
        ),
    ),
    Mutation(
        "a transaction id that is known is stored again",
        MACHINE,
        (
            Change(
                "store/round.py",
                "earlier = known.get(chosen) if chosen is not None else None",
                "earlier: Offset | None = None",
            ),
        ),
    ),
    Mutation(
        "an idempotency key is not looked up",
        MACHINE,
        (
            Change(
                "core/transact.py",
                "if earlier := await self._store.find_outcome(once):",
                "if earlier := None:",
            ),
            Change(
                "store/round.py",
                "            if earlier:\n                return earlier.answer(change.key)\n",
                "",
            ),
        ),
    ),
    Mutation(
        "offsets are given by the end at the start of the round, not under the lock",
        ORDER,
        (
            Change(
                "store/tail.py",
                "list(range(first, self.end))",
                "list(range(self.partition.end, self.partition.end + self.end - first))",
            ),
        ),
    ),
    Mutation(
        "messages are delivered by time, the newest first",
        MACHINE,
        (
            Change(
                "core/claim.py",
                "messages = [m for m in found if",
                "messages = [m for m in sorted(found, key=lambda m: m.created_at)[::-1] if",
            ),
        ),
    ),
    Mutation(
        "a delivery is handed over before its lease is committed",
        SYNC,
        (
            Change(
                "core/take.py",
                "            return await asyncio.shield(submitted)\n",
                "            return Applied()\n",
            ),
        ),
    ),
    Mutation(
        "what a group gave up is not kept as a dead letter",
        MACHINE,
        (
            Change(
                "store/round.py",
                "            self._give_up(given_up)\n",
                "            pass\n",
            ),
        ),
    ),
    *(
        Mutation(
            f"the log is recovered in the mode {mode}",
            DAMAGE,
            (
                Change(
                    "store/rocksdb/options.py",
                    "DBRecoveryMode.tolerate_corrupted_tail_records()",
                    f"DBRecoveryMode.{mode}()",
                ),
            ),
        )
        for mode in ("skip_any_corrupted_record", "point_in_time")
    ),
)
