"""What survives a loss of power, and a disk that fails to sync."""

import re
import shutil
from pathlib import Path

import pytest

from skep.errors import Corrupted, StoreFailed
from skep.model.change import Change
from skep.store.commit.evaluation import CommitRound
from skep.store.rocksdb.store import RocksStore
from tests.support.rocksdb_builders import count_numbers, number, open_store, push_numbers, start
from tests.support.rocksdb_child_process import run_child
from tests.support.rocksdb_files import copy, log_of

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")


def write_without_sync(store: RocksStore, change: Change) -> None:
    """What a commit does up to the sync."""
    round_ = CommitRound(store._view, lane=store.lane, now=store.clock.now())
    round_.evaluate(change)
    batch = store._tables.batch_of(round_, round_.segments(), round_.partitions())
    store._context.write(batch)


async def torn(path: Path) -> tuple[Path, int]:
    """A directory whose log ends with a sixth push that was never synced; its synced length."""
    store = open_store(path / "live")
    partition = await start(store)
    await push_numbers(store, partition, 0, 5)
    synced = log_of(path / "live").stat().st_size
    write_without_sync(store, number(partition, 5))
    crashed = shutil.copytree(path / "live", path / "crashed")
    await store.close()
    return crashed, synced


async def test_a_log_that_breaks_off_after_the_last_sync_holds_all_that_was_answered(
    quick_path: Path,
) -> None:
    crashed, synced = await torn(quick_path)
    written = log_of(crashed).read_bytes()

    found: list[int] = []
    for length in range(synced, len(written) + 1):
        cut = copy(crashed)
        log_of(cut).write_bytes(written[:length])
        found.append(await count_numbers(cut))

    # The push that was not answered is whole or absent.
    assert len(found) > 200
    assert found == [5] * (len(found) - 1) + [6]


async def test_a_log_whose_end_was_never_written_loses_nothing_that_was_answered(
    quick_path: Path,
) -> None:
    crashed, synced = await torn(quick_path)
    written = log_of(crashed).read_bytes()

    found: set[int | str] = set()
    for length in range(synced, len(written) + 1, 4):
        cut = copy(crashed)
        log_of(cut).write_bytes(written[:length] + bytes(len(written) - length))
        try:
            found.add(await count_numbers(cut))
        except Corrupted:
            found.add("refused")

    # A file system may have made room for the last writes and not have written them.
    assert found == {5, 6, "refused"}


async def test_a_store_whose_log_broke_off_goes_on(tmp_path: Path) -> None:
    crashed, synced = await torn(tmp_path)
    log_of(crashed).write_bytes(log_of(crashed).read_bytes()[: synced + 30])
    store = open_store(crashed)

    await push_numbers(store, await start(store), 5, 8)
    await store.close()

    assert await count_numbers(crashed) == 8


async def test_a_write_that_fails_leaves_nothing_of_itself_in_memory(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    partition = await start(store)
    await push_numbers(store, partition, 0, 3)
    store._db._failure = "no space left"  # as a sync leaves it that failed

    with pytest.raises(StoreFailed):
        await store.truncate(partition.queue, partition.number, 2, kind="age")

    assert [store._tables.catalogue.partition(partition.queue, partition.number)] == list(
        await store.partitions(partition.queue)
    )
    await store.close()


@needs_strace
@pytest.mark.parametrize("moment", range(1, 7))
async def test_a_store_whose_first_opening_was_cut_short_opens(tmp_path: Path, moment: int) -> None:
    inject = f"inject=fdatasync:signal=SIGKILL:when={moment}"
    under = ["strace", "-f", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", inject]
    told = run_child("hold", tmp_path / "store", under=under)

    store = open_store(tmp_path / "store")

    await push_numbers(store, await start(store), 0, 1)
    await store.close()
    assert told == []
    assert await count_numbers(tmp_path / "store") == 1


@needs_strace
def test_nothing_is_answered_before_the_log_was_synced(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    under = ["strace", "-f", "-y", "-o", str(trace), "-e", "trace=write,fdatasync"]

    answers = run_child("push", tmp_path / "store", under=under)

    told: list[str] = []
    for line in trace.read_text().splitlines():
        if "Commit" in line:
            told.append("answer")
        elif re.search(r"write\(\d+<[^>]*\.log>", line):
            told.append("write")
        elif re.search(r"fdatasync(\(\d+<[^>]*\.log>\)| resumed>\)) += 0", line):
            told.append("sync")
    story = " ".join(told)
    assert answers == ["Commit"] * 20
    # Two pushes at a time: each wrote before the syncs that came before their answers.
    rounds = story.split(" answer answer")[:-1]
    assert len(rounds) == 10
    assert [re.search("write .*sync$", one.strip()) is not None for one in rounds] == [True] * 10


@needs_strace
@pytest.mark.parametrize("when", ["12", "12+"], ids=["once", "from then on"])
async def test_after_a_failed_sync_nothing_is_answered_and_nothing_answered_is_lost(
    tmp_path: Path, when: str
) -> None:
    inject = f"inject=fdatasync:error=EIO:when={when}"
    under = ["strace", "-f", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", inject]

    answers = run_child("push", tmp_path / "store", under=under)

    good = answers.count("Commit")
    assert 0 < good < 20
    assert answers[:good] == ["Commit"] * good
    unknown = answers[good:].count("OutcomeUnknown")
    assert 1 <= unknown <= 2
    assert answers[good + unknown :] == ["StoreFailed"] * (21 - good - unknown)
    assert good <= await count_numbers(tmp_path / "store") <= good + unknown


@needs_strace
def test_a_store_that_stopped_can_be_closed_and_opened_again(tmp_path: Path) -> None:
    inject = "inject=fdatasync:error=EIO:when=12"
    under = ["strace", "-f", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", inject]

    told = run_child("reopen", tmp_path / "store", under=under)

    assert told == ["OutcomeUnknown", "True"]


@needs_strace
async def test_after_a_failed_write_nothing_is_answered_and_nothing_answered_is_lost(
    tmp_path: Path,
) -> None:
    log = log_of(tmp_path / "store")
    inject = "inject=write:error=EIO:when=9+"
    under = ["strace", "-f", "-o", "/dev/null", "-P", str(log), "-e", "trace=write", "-e", inject]

    answers = run_child("push", tmp_path / "store", under=under)

    good = answers.count("Commit")
    assert 0 < good < 20
    assert "OutcomeUnknown" in answers
    assert set(answers[good + 2 :]) == {"StoreFailed"}
    assert good <= await count_numbers(tmp_path / "store") <= good + 2
