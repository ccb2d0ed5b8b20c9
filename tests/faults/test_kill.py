"""kill -9 at any moment, restart at once, again and again: every promise holds.

``SKEP_KILLS=200 pytest tests/faults/test_kill.py`` does it longer; ``SKEP_SEED`` repeats the
moments of a run.
"""

import os
import time
from collections import Counter
from pathlib import Path
from random import Random

from tests.support.faults.child_process import run, running, wait_for_size
from tests.support.faults.history import Operation, read
from tests.support.faults.history_checker import check
from tests.support.faults.recording_clients import SOURCE, TARGET
from tests.support.faults.worker_process import RETRY_LIMIT

KILLS = int(os.environ.get("SKEP_KILLS", "8"))
SEED = int(os.environ.get("SKEP_SEED", "1"))


def test_no_promise_is_broken_by_a_process_that_is_killed_and_restarted(tmp_path: Path) -> None:
    store, histories = tmp_path / "store", tmp_path / "histories"
    histories.mkdir()
    random = Random(SEED)

    for number in range(KILLS):
        with running("worker_process", store, histories, "run") as process:
            wait_for_size(histories / f"{number:04}.jsonl", 1, process)
            time.sleep(random.uniform(0.05, 0.5))
    run("worker_process", store, histories, "finish")

    history = read(sorted(histories.glob("*.jsonl")))
    assert check(history, retry_limit=RETRY_LIMIT, copies=(SOURCE, TARGET)) == []
    assert_that_much_happened(history)


def assert_that_much_happened(history: list[Operation]) -> None:
    """A run in which nothing happened proves nothing."""
    done = Counter((op.asked.does, op.result) for op in history)
    assert min(done[what, "ok"] for what in ("push", "pop", "settle", "transact")) > KILLS
    assert sum(count for (_, result), count in done.items() if result == "info") >= KILLS
    assert any(op.seen for op in history if op.asked.does == "letters")
