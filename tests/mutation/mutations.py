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

SERVERS = "tests/postgres/test_consistency.py::test_"
LOADING = "tests/broker/test_loading.py::test_"
RELOAD = "tests/postgres/test_reload.py::test_"
SLOW = "tests/http/test_slow_readers.py::test_a_client_that_"
BODIES = "tests/http/test_body_budget.py::test_"
DELETION = "tests/broker/test_queue_admin.py::test_"
TWO_SERVERS = "tests/postgres/test_two_servers.py::test_"
OTHER_SITES = "tests/unit/http/auth/test_cors.py::test_pages_of_other_sites_may_not_ask"
QUOTA = "tests/unit/core/state/test_quota.py::test_"
FORGET = "            if len(self._counts) >= MAX_COUNTS:\n                self._counts.clear()\n"
WORK = (
    "tests/broker/test_transactions.py"
    "::test_a_transaction_with_twice_as_many_queues_is_twice_the_work"
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
                "core/rules/ack.py",
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
                "            pass\n",
            ),
        ),
    ),
    Mutation(
        "a state is replaced whatever its version",
        STALE,
        (
            Change(
                "store/commit/evaluation.py",
                "        elif current.version != version or current.token != token:\n"
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
                "store/commit/evaluation.py",
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
                "core/transaction/transaction.py",
                "        earlier = await self._store.find_outcome(key)\n",
                "        earlier = None\n",
            ),
            Change(
                "store/commit/evaluation.py",
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
                "store/commit/partition_tail.py",
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
                "core/consume/partition_lease.py",
                "messages = [m for m in candidates if",
                "messages = [m for m in sorted(found, key=lambda m: m.created_at)[::-1] if",
            ),
        ),
    ),
    Mutation(
        "a delivery is handed over before its lease is committed",
        SYNC,
        (
            Change(
                "core/consume/lease_commit.py",
                "            outcome = await asyncio.shield(submitted)\n",
                "            outcome = Applied()\n",
            ),
        ),
    ),
    Mutation(
        "what a group gave up is not kept as a dead letter",
        MACHINE,
        (
            Change(
                "store/commit/evaluation.py",
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
    Mutation(
        "states of the same version are taken for the same state",
        "tests/store/test_consumer.py"
        "::test_an_update_that_is_based_on_another_write_of_the_same_version_is_stale",
        (
            Change(
                "store/commit/evaluation.py",
                "        elif current.version != version or current.token != token:\n",
                "        elif current.version != version:\n",
            ),
        ),
    ),
    Mutation(
        "any live lease will do for an ack",
        "tests/store/test_consumer.py::test_an_update_under_a_lease_needs_that_very_lease",
        (
            Change(
                "store/commit/evaluation.py",
                "return None if lease and lease.id == update.lease else Expired()",
                "return None if lease else Expired()",
            ),
        ),
    ),
    Mutation(
        "the configuration that a push relied on is not compared",
        SERVERS + "what_is_pushed_after_encryption_was_enabled_elsewhere_is_encrypted",
        (
            Change("store/postgres/queries/commit_write.sql", " AND q.version = a.version\n", "\n"),
            Change(
                "store/commit/evaluation.py", "if version != basis.version:", "if version is None:"
            ),
        ),
    ),
    Mutation(
        "how much was pushed to a queue is not compared with its capacity",
        SERVERS + "a_queue_never_takes_more_than_fits_from_both_servers_together",
        (
            Change(
                "store/commit/evaluation.py",
                "return pushed + capacity.messages <= capacity.total",
                "return pushed >= 0",
            ),
        ),
    ),
    Mutation(
        "the maintenance mode that a push relied on is not compared",
        SERVERS + "maintenance_keeps_the_order_of_a_producer_that_alternates",
        (
            Change(
                "store/postgres/queries/commit_write.sql",
                "        AND NOT EXISTS (SELECT FROM present))::integer;",
                "        )::integer;",
            ),
            Change(
                "store/commit/evaluation.py",
                "            if self._entry_version(at.space, at.key) != at.version:\n"
                "                return False\n",
                "            self._entry_version(at.space, at.key)\n",
            ),
        ),
    ),
    Mutation(
        "a refusal is answered although another server applied the transaction",
        SERVERS + "a_transaction_that_another_server_applies_meanwhile_gets_its_answer",
        (
            Change(
                "core/transaction/transaction.py",
                "            except (Conflict, NotFound):\n",
                "            except ZeroDivisionError:\n",
            ),
        ),
    ),
    Mutation(
        "what other servers did is not asked for",
        SERVERS + "what_is_read_after_a_commit_elsewhere_includes_it",
        (
            Change(
                "core/cluster/peer_sync.py",
                "        if not self._store.has_peers:\n            return\n",
                "        return\n",
            ),
        ),
    ),
    Mutation(
        "a queue of the same name is taken for the queue that was deleted elsewhere",
        SERVERS + "a_queue_that_is_created_again_is_another_queue_at_every_server",
        (
            Change(
                "core/state/catalogue.py",
                "            queue = self._registry.by_number.get(stored.number)\n",
                "            queue = self._registry.queues.get(stored.name)\n",
            ),
        ),
    ),
    Mutation(
        "messages of a deleted queue are found until its memory is freed",
        DELETION + "nothing_of_a_deleted_queue_is_found_while_its_memory_is_being_freed",
        (
            Change(
                "core/state/registry.py",
                "found if found is not None and self.is_known(found.queue) else None",
                "found",
            ),
        ),
    ),
    Mutation(
        "events that were deleted unheard are not missed",
        SERVERS + "events_that_were_deleted_unheard_are_noticed_on_the_own_lane_too",
        (
            Change(
                "store/postgres/peer_feed.py",
                '        if any(row["next"] > known.get(row["lane"], 0) + 1 for row in events):\n'
                "            return None\n",
                "",
            ),
        ),
    ),
    Mutation(
        "after a failover an answer does not wait for the rest of a large queue",
        RELOAD + "numbers_of_a_large_queue_are_complete_after_a_failover",
        (
            Change(
                "core/cluster/peer_sync.py",
                "            if self._loader.is_loaded(queue):\n                return\n",
                "            return\n",
            ),
        ),
    ),
    Mutation(
        "a pop does not wait for partitions that are not loaded",
        RELOAD + "a_partition_that_is_not_loaded_again_yet_is_popped_after_a_failover",
        (
            Change(
                "core/state/state_loader.py", "group.queue.loaded and not group.starting", "True"
            ),
        ),
    ),
    Mutation(
        "every push of a transaction is compared with all pushes before it",
        WORK,
        (
            Change(
                "core/transaction/request.py",
                "            yield batch, before.get(batch.queue, 0)\n",
                "            yield batch, sum(size for name, size in before.items()"
                " if name == batch.queue)\n",
            ),
        ),
    ),
    Mutation(
        "what a commit has appended is counted again for every queue with a limit",
        WORK,
        (
            Change(
                "store/commit/evaluation.py",
                "        if self._added is None:\n",
                "        if True:\n",
            ),
        ),
    ),
    Mutation(
        "a page of partitions that could not be read is not read again",
        LOADING + "a_page_that_could_not_be_read_is_read_again",
        (
            Change(
                "core/state/background_loader.py",
                "                    await asyncio.sleep(_RETRY_SECONDS)\n",
                "                    return\n",
            ),
        ),
    ),
    Mutation(
        "a queue that cannot be read is tried again before the others are loaded",
        LOADING + "a_queue_that_cannot_be_read_does_not_keep_others_from_being_loaded",
        (
            Change(
                "core/state/background_loader.py",
                "            self._places[item] = self._places.pop(item)\n",
                "",
            ),
        ),
    ),
    Mutation(
        "a pop is authorized again after a long poll only",
        LOADING + "a_pop_that_waited_for_a_partition_to_be_loaded_is_authorized_again",
        (
            Change(
                "core/consume/pop.py",
                "                return None\n            await authorize()\n",
                "                return None\n            if request.wait:\n"
                "                await authorize()\n",
            ),
        ),
    ),
    Mutation(
        "a pop is not authorized again after the first contact of its group",
        LOADING + "a_first_contact_that_waited_until_all_is_loaded_is_authorized_again",
        (
            Change(
                "core/consume/pop.py",
                "        if has_waited:\n            await authorize()\n",
                "",
            ),
        ),
    ),
    Mutation(
        "a pop of a new group does not wait while its first cursors are being applied",
        LOADING + "nothing_is_decided_on_cursors_of_a_new_group_that_are_not_known_yet",
        (
            Change("core/consume/subscription.py", " or known.starting else", " else"),
            Change("core/state/state_loader.py", " and not group.starting and not", " and not"),
        ),
    ),
    Mutation(
        "a new group is ready while its first cursors are being applied",
        LOADING + "nothing_is_decided_on_cursors_of_a_new_group_that_are_not_known_yet",
        (
            Change(
                "core/state/catalogue.py",
                "group = self._registry.add_group(queue, subscription, starting=True)",
                "group = self._registry.add_group(queue, subscription)",
            ),
        ),
    ),
    Mutation(
        "an ack waits until everything is loaded although another server told of its lease",
        TWO_SERVERS
        + "an_ack_of_what_another_server_leased_does_not_wait_until_everything_is_loaded",
        (Change("core/cluster/peer_sync.py", "        await self._load_leased(commits)\n", ""),),
    ),
    Mutation(
        "what another server does while a page is read is forgotten",
        TWO_SERVERS + "what_another_server_does_while_a_page_is_read_is_known_afterwards",
        (
            Change(
                "core/state/state_loader.py",
                "            self._missed.add(partition)",
                "            pass",
            ),
        ),
    ),
    Mutation(
        "a partition that is made while its queue is loaded is known without its cursors",
        LOADING + "a_push_to_a_stored_partition_that_is_not_loaded_keeps_the_cursors_in_it",
        (
            Change(
                "core/state/catalogue.py",
                "            if not queue.loaded:\n",
                "            if False:\n",
            ),
        ),
    ),
    *(
        Mutation(
            f"a client that reads slowly is disconnected: {what}",
            SLOW + "reads_slowly_but_steadily_stays_connected",
            (Change("http/uvicorn_protocol.py", old, new),),
        )
        for what, old, new in (
            ("a megabyte is no progress", " or unread <= self._unread_bytes - MB", ""),
            (
                "a piece is no progress",
                "        super().resume_writing()\n        self._unread_since = None\n",
                "        super().resume_writing()\n",
            ),
        )
    ),
    *(
        Mutation(
            f"a client that does not read stays connected: {what}",
            SLOW + test,
            (Change("http/uvicorn_protocol.py", old, new),),
        )
        for what, test, old, new in (
            (
                "there is no deadline",
                "does_not_read_is_disconnected",
                "        if self._is_unread(now):\n",
                "        if False:\n",
            ),
            (
                "it has read something once",
                "stops_reading_is_disconnected",
                "unread <= self._unread_bytes - MB:",
                "unread < 7 * MB:",
            ),
        )
    ),
    *(
        Mutation(
            f"unfinished bodies: {what}",
            BODIES + test,
            (Change("http/uvicorn_protocol.py", *change),),
        )
        for what, test, *change in (
            (
                "a body is released twice",
                "a_body_counts_until_it_is_complete",
                "            self._held_bytes = self._body_bytes = 0\n",
                "            self._body_bytes = 0\n",
            ),
            (
                "a body is released before it is complete",
                "a_body_counts_until_it_is_complete",
                "        self._body_bytes += len(body)\n",
                "        self._release_body()\n        self._body_bytes += len(body)\n",
            ),
            (
                "the body of a client that has gone is not released",
                "a_body_whose_client_has_gone_no_longer_counts",
                "        self._release_body()\n        for cycle",
                "        for cycle",
            ),
            (
                "a body that is rejected is not released",
                "a_body_that_is_rejected_no_longer_counts",
                "        self._rejection = rejection\n        self._release_body()\n",
                "        self._rejection = rejection\n",
            ),
            (
                "a body that was answered before its end is not released",
                "a_body_that_was_answered_before_its_end_no_longer_counts",
                "            self._release_body()\n        elif",
                "            pass\n        elif",
            ),
        )
    ),
    *(
        Mutation(
            f"after a deletion that failed {what}",
            DELETION + "polls_of_a_queue_that_could_not_be_deleted_go_on",
            (
                Change(
                    "core/state/registry.py",
                    "        self.undrop(queue.config.number)\n"
                    "        self._waiters.wake_all(queue.config.name)\n"
                    "        self._waiters.wake_all(ANY_QUEUE)\n",
                    f"        self._waiters.wake_all({woken})\n",
                ),
            ),
        )
        for what, woken in (
            ("polls of the queue are not woken", "ANY_QUEUE"),
            ("polls of any queue are not woken", "queue.config.name"),
        )
    ),
    Mutation(
        "a queue that is being deleted is taken for one that does not exist",
        DELETION + "a_pop_in_a_queue_that_could_not_be_deleted_starts_where_it_asked_to",
        (Change("core/consume/pop.py", " or queue in self._registry.deleting", ""),),
    ),
    Mutation(
        "a group is forgotten before it is deleted",
        DELETION + "a_poll_of_a_group_that_could_not_be_deleted_goes_on_where_it_was",
        (
            Change(
                "core/state/catalogue.py",
                "        await self._store.delete_group(group.queue.config.number, group.name)\n"
                "        if not group.removed:\n"
                "            self._registry.drop_group(group)\n",
                "        self._registry.drop_group(group)\n"
                "        await self._store.delete_group(group.queue.config.number, group.name)\n",
            ),
        ),
    ),
    Mutation(
        "events about a queue are lost while its deletion fails",
        TWO_SERVERS + "what_happened_elsewhere_to_a_queue_that_could_not_be_deleted_is_known",
        (
            Change(
                "core/state/catalogue.py",
                "                    self._loader.outdated.add(queue.config.number)\n",
                "                    pass\n",
            ),
        ),
    ),
    Mutation(
        "a queue that could not be read is taken for one that is gone",
        TWO_SERVERS + "a_queue_of_another_server_that_could_not_be_read_is_read_again",
        (
            Change(
                "core/state/state_loader.py",
                "                self._registry.undrop(config.number)\n",
                "",
            ),
        ),
    ),
    *(
        Mutation(
            f"pages of other sites: {what}", OTHER_SITES, (Change("http/auth/cors.py", *change),)
        )
        for what, *change in (
            (
                "the Referer is not looked at",
                "        if not referer:\n    ",
                "        if True:\n    ",
            ),
            ("the Referer outweighs Sec-Fetch-Site", "site is None and _is_own(", "_is_own("),
            ("another port is the same origin", '{b"none", ', '{b"none", b"same-site", '),
        )
    ),
    Mutation(
        "a HEAD request pops",
        "tests/http/test_push_and_pop.py::test_a_head_request_does_not_pop",
        (Change("http/app.py", ' or (method == "HEAD" and route.needs is Permission.POP)', ""),),
    ),
    Mutation(
        "chunks without bytes do not count against the quota",
        QUOTA + "chunks_without_bytes_count_too",
        (Change("core/sink/staged_bytes.py", "return max(size, MIN_CHUNK_BYTES)", "return size"),),
    ),
    *(
        Mutation(
            f"counts of every principal are remembered in {file}",
            QUOTA + "counts_of_many_principals_are_forgotten",
            (Change(file, FORGET, ""),),
        )
        for file in ("core/state/quota.py", "core/sink/staged_bytes.py")
    ),
)
