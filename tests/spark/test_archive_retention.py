"""What an archive lets go from queues is old, archived, and done by every group."""

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession

from skep.cli.pipeline.job import lag_of
from tests.support.broker_builders import a_run
from tests.support.cli_shell import Shell
from tests.support.spark.archive_server import HOUR, Scene, archived, open_scene

pytestmark = pytest.mark.xdist_group("spark")

ARCHIVE = ("pipeline", "run", "archive", "--remove-after", "1h")


@pytest.fixture
def scene() -> Iterator[Scene]:
    with open_scene() as scene:
        yield scene


@pytest.fixture
def shell(scene: Scene, tmp_path: Path) -> Shell:
    return Shell(scene.url, XDG_DATA_HOME=str(tmp_path / "home"))


@pytest.fixture
def to(tmp_path: Path) -> str:
    return str(tmp_path / "archive")


def test_only_what_is_archived_is_removed_and_archive_and_queue_hold_each_message_once(
    spark: SparkSession, scene: Scene, shell: Shell, to: str
) -> None:
    """A queue that no group consumes, and an archive that is run once a day."""
    command = (*ARCHIVE, "--queue", "orders", "--to", to)
    scene.push("abcde")
    shell.run(*command)
    scene.push("fgh")
    scene.advance(24 * HOUR)

    assert scene.sweep() == 5
    assert (archived(spark, to), scene.kept()) == ("abcde", "fgh")
    shell.run(*command)
    assert scene.sweep() == 3

    assert (archived(spark, to), scene.kept()) == ("abcdefgh", "")


def test_what_is_archived_stays_until_it_is_old_and_every_group_has_done_it(
    spark: SparkSession, scene: Scene, shell: Shell, to: str
) -> None:
    scene.push("aAbB")
    for group in ("fast", "slow"):
        scene.done(group, "p0")
    scene.done("fast", "p1")
    shell.run(*ARCHIVE, "--to", to)

    scene.advance(HOUR)
    assert scene.sweep() == 0
    scene.advance(1)
    assert scene.sweep() == 2

    assert (archived(spark, to), scene.kept()) == ("ABab", "AB")


@pytest.mark.usefixtures("spark")
def test_other_options_and_labels_of_a_queue_stay(scene: Scene, shell: Shell, to: str) -> None:
    before = scene.client.queues.configure("orders", namespace="shop", priority=7, max_size=9)

    shell.run(*ARCHIVE, "--queue", "orders", "--to", to)

    after = scene.client.queues.get("orders")
    assert (after.options.retention_enabled, after.options.completed_retention_seconds) == (
        *(True, HOUR),
    )
    assert (after.namespace, after.options.priority, after.options.max_size) == ("shop", 7, 9)
    assert after.number == before.number


@pytest.mark.usefixtures("spark")
def test_an_archive_that_follows_lets_go_what_it_has_while_it_runs(
    scene: Scene, shell: Shell, to: str
) -> None:
    scene.push("abc")
    scene.advance(2 * HOUR)

    with ThreadPoolExecutor() as pool:
        removed = pool.submit(sweep_in_turns, scene, ["def", "gh"])
        shell.run(*ARCHIVE, "--queue", "orders", "--to", to, "--follow", "--every", "10ms")

    assert removed.result() == [3, 3, 2]


def sweep_in_turns(scene: Scene, pushes: list[str]) -> list[int]:
    """Sweep whenever the archive has all there is, and stop it at last."""
    try:
        removed = [sweep_until_empty(scene)]
        for texts in pushes:
            scene.push(texts)
            scene.advance(2 * HOUR)
            removed.append(sweep_until_empty(scene))
        return removed
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


def sweep_until_empty(scene: Scene, seconds: float = 60) -> int:
    removed, tick = 0, threading.Event()
    for _ in range(round(seconds / 0.02)):
        removed += scene.sweep()
        if not scene.kept():
            break
        tick.wait(0.02)
    return removed


@pytest.mark.usefixtures("spark")
def test_a_queue_that_was_deleted_and_made_again_keeps_what_is_not_archived(
    scene: Scene, shell: Shell, to: str
) -> None:
    command = (*ARCHIVE, "--queue", "orders", "--to", to)
    scene.push("ab")
    shell.run(*command)
    scene.client.queues.delete("orders")
    scene.push("cd")
    scene.done("fast", "p0")

    said = shell.said(*command, expect=1)
    scene.advance(24 * HOUR)

    assert "was deleted and recreated" in said
    assert (scene.sweep(), scene.kept()) == (0, "cd")


@pytest.mark.usefixtures("spark")
def test_a_queue_that_came_since_the_last_run_removes_nothing_before_it_is_archived(
    scene: Scene, shell: Shell, to: str
) -> None:
    scene.push("a")
    shell.run(*ARCHIVE, "--to", to)
    scene.push("b", "later")

    removing = []
    for _ in range(2):
        shell.run(*ARCHIVE, "--to", to)
        removing.append(scene.client.queues.get("later").options.retention_enabled)

    assert removing == [False, True]


def test_a_queue_that_removes_by_age_alone_is_refused(scene: Scene, shell: Shell, to: str) -> None:
    scene.client.queues.configure("kept")
    scene.client.queues.configure("orders", retention_seconds=60)

    said = shell.said(*ARCHIVE, "--to", to, expect=1)

    assert "queue 'orders' deletes messages after 60 s, archived or not" in said
    assert not scene.client.queues.get("kept").options.retention_enabled
    assert shell.json("pipeline", "status") == []


@pytest.mark.parametrize("age", ["0s", "999ms", "soon"])
def test_an_age_that_retention_cannot_count_is_refused(shell: Shell, to: str, age: str) -> None:
    said = shell.misused("pipeline", "run", "archive", "--to", to, "--remove-after", age)

    assert f"not '{age}'" in said


def test_an_archive_stops_where_messages_are_lost_and_goes_on_if_that_is_allowed(
    spark: SparkSession, scene: Scene, shell: Shell, to: str
) -> None:
    command = ("pipeline", "run", "archive", "--to", to)
    scene.push("a")
    shell.run(*command)
    scene.client.queues.configure("short", retention_enabled=True, retention_seconds=1)
    scene.push("lost", "short")
    scene.advance(HOUR)
    scene.sweep()
    scene.push("kept", "short")

    assert "with --allow-loss" in shell.said(*command, expect=1)
    assert archived(spark, to) == "a"
    shell.run(*command, "--allow-loss")

    assert archived(spark, to) == "".join(sorted("a" + "kept"))


def test_what_is_in_queues_that_an_archive_of_all_has_not_met_counts_as_its_lag(
    scene: Scene,
) -> None:
    scene.push("ab")
    told = {"queues": ["orders"], "start": "earliest"}
    httpx.put(f"{scene.url}/api/v1/journal/groups/g", json=told).raise_for_status()
    scene.push("cde", "new")

    assert lag_of(scene.client, a_run(queues=(), groups=("g",))) == 5
    assert lag_of(scene.client, a_run(queues=("orders",), groups=("g",))) == 2
