"""What the server is told of runs, and what is shown of them."""

import logging
import os
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING

import pytest

from skep import Client, Draft
from skep.cli.pipeline import run_reporter as told
from skep.cli.pipeline.run_reporter import RunReporter, reporting, this_host, to_pipeline_run
from skep.cli.pipeline.status import merged
from skep.errors import Unavailable
from skep.model.pipeline import MAX_TEXT, PipelineRun
from skep.pipelines.archive import read_archive
from skep.pipelines.record import Records, RunRecord
from tests.spark.conftest import Push
from tests.support.broker_builders import a_run
from tests.support.cli_shell import Shell
from tests.support.server_process import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEVER = 3600.0
PATIENCE = 10
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def heard() -> "Queue[PipelineRun]":
    return Queue()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert tellers() == []


def tellers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == told.THREAD]


def test_a_run_is_told_at_once_then_in_its_pace_and_at_its_end(heard: "Queue[PipelineRun]") -> None:
    reporter = RunReporter(heard.put, pace=NEVER)

    reporter.report(a_run(messages=0))
    first = heard.get(timeout=PATIENCE)
    turn = threading.Event()
    for messages in range(1, 100):
        reporter.report(a_run(messages=messages))
        turn.wait(0.001)
    reporter.close()

    assert first == a_run(messages=0)
    assert [run.messages for run in heard.queue] == [99]


def test_a_run_of_which_there_is_nothing_new_is_told_again(heard: "Queue[PipelineRun]") -> None:
    reporter = RunReporter(heard.put, pace=0, heartbeat=0.01)
    reporter.report(a_run())

    again = [heard.get(timeout=PATIENCE) for _ in range(3)]
    reporter.close()

    assert again == [a_run()] * 3


def test_the_last_word_is_said_once(heard: "Queue[PipelineRun]") -> None:
    reporter = RunReporter(heard.put, pace=0, heartbeat=NEVER)
    reporter.report(a_run(state="done"))
    heard.get(timeout=PATIENCE)

    reporter.close()

    assert heard.empty()


def test_a_run_that_never_began_is_not_told(heard: "Queue[PipelineRun]") -> None:
    RunReporter(heard.put).close()

    assert heard.empty()


def test_a_server_that_refuses_is_complained_about_once_and_told_again(
    heard: "Queue[PipelineRun]", caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(run: PipelineRun) -> None:
        heard.put(run)
        raise Unavailable("away")

    reporter = RunReporter(refuse, pace=0, heartbeat=0.01)
    with caplog.at_level(logging.WARNING, "skep.pipeline"):
        reporter.report(a_run())
        for _ in range(3):
            heard.get(timeout=PATIENCE)
        reporter.close()

    assert [record.message for record in caplog.records] == [
        "could not report the run to the server: run=archive-1 error=away"
    ]


def test_a_server_that_is_away_does_not_keep_a_run_from_its_end(tmp_path: Path) -> None:
    with reporting("http://127.0.0.1:1", None) as tell:
        records = Records(tmp_path, told=tell)
        run = records.begin(
            "archive-1", pipeline="archive", url="http://127.0.0.1:1", queues=("q",), target="a"
        )
        records.tell(run, 10)
        records.end(run, "done")

    assert [(each.state, each.messages) for each in records.list()] == [("done", 10)]


def test_a_run_does_not_wait_for_a_server_that_is_silent_and_who_tells_ends_after_it(
    heard: "Queue[PipelineRun]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(told, "CLOSE_SECONDS", 0.01)
    answer = threading.Event()

    def hang(run: PipelineRun) -> None:
        heard.put(run)
        answer.wait(PATIENCE)

    reporter = RunReporter(hang)
    (thread,) = tellers()
    reporter.report(a_run())
    heard.get(timeout=PATIENCE)
    reporter.close()

    assert thread.is_alive()
    answer.set()
    thread.join(PATIENCE)


@pytest.mark.xdist_group("spark")
def test_a_pipeline_whose_server_went_away_ends_well(
    spark: "SparkSession", tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    records = Records(tmp_path / "home/skep/pipelines")
    to = str(tmp_path / "archive")
    with ServerProcess(tmp_path / "store") as server, Client(server.url) as client:
        client.push("orders", [Draft(b"1"), Draft(b"2")])
        shell = Shell(server.url, XDG_DATA_HOME=str(tmp_path / "home"))
        command = ("pipeline", "run", "archive", "--to", to, "--follow", "--every", "10ms")
        stopper = threading.Thread(target=leave, args=(server, records))

        stopper.start()
        done = shell.json(*command)
        stopper.join()

    assert done["archived"] == 2
    assert [run.state for run in records.list()] == ["stopped"]
    assert read_archive(spark, to).count() == 2
    (said,) = (each.message for each in caplog.records if each.name == "skep.pipeline")
    assert said.startswith("could not report the run to the server: ")


def leave(server: ServerProcess, records: Records) -> None:
    """Kill the server once a batch is through, and stop the pipeline."""
    tick = threading.Event()
    while not any(run.batches for run in records.list()):
        tick.wait(0.02)
    server.end(signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGTERM)


def test_the_server_knows_how_a_run_ended(client: Client, url: str, tmp_path: Path) -> None:
    with reporting(url, None) as tell:
        records = Records(tmp_path, told=tell)
        run = records.begin(
            "archive-1", pipeline="archive", url=url, queues=("q",), target="a", streams="together"
        )
        records.tell(run, 10)
        records.end(run, "failed", "x" * (MAX_TEXT + 1))

    found = client.pipelines.get(run.id)
    assert (found.state, found.messages, found.batches, found.host) == (
        *("failed", 10, 1, this_host()),
    )
    assert (found.queues, found.target, found.groups) == (("q",), "a", run.groups)
    assert found.error == "x" * MAX_TEXT


def test_a_run_whose_spark_does_not_start_is_told_of(
    shell: Shell, client: Client, push: Push, queue: str, tmp_path: Path
) -> None:
    push(1)
    shell.environment["JAVA_HOME"] = str(tmp_path)

    to = str(tmp_path / "a")
    shell.run("pipeline", "run", "archive", "--to", to, "--queue", queue, expect=3)

    (run,) = [run for run in client.pipelines.list() if run.queues == (queue,)]
    assert (run.state, run.target, run.host) == ("failed", to, this_host())
    assert "Java 17" in str(run.error)


# What is shown.


def local(identity: str, *, updated_at: datetime = NOON, **fields: str) -> RunRecord:
    run = RunRecord(
        id=identity,
        pipeline="archive",
        url="http://other",
        queues=("q",),
        target="a",
        checkpoint="/srv/c",
        started_at=NOON,
        updated_at=updated_at,
    )
    for name, value in fields.items():
        setattr(run, name, value)
    return run


def test_runs_of_all_machines_are_shown_once_the_newest_first() -> None:
    later, earlier = NOON + timedelta(seconds=9), NOON - timedelta(seconds=9)
    own = [local("own", state="interrupted"), local("shared"), local("mine")]
    others = [
        # The lock of this machine knows better than its last word.
        a_run("own", host=this_host(), updated_at=later),
        a_run("shared", host="mill", updated_at=later),
        a_run("mine", host="mill", updated_at=earlier),
        a_run("other", host="mill", updated_at=earlier),
    ]

    found = merged(own, others, "http://server")

    assert [(each.run.id, each.run.host, each.run.state, each.url) for each in found] == [
        ("shared", "mill", "running", "http://server"),
        ("own", this_host(), "interrupted", "http://other"),
        ("mine", this_host(), "running", "http://other"),
        ("other", "mill", "running", "http://server"),
    ]
    assert found[1] == (to_pipeline_run(own[0]), "http://other", "/srv/c")


def test_the_status_shows_the_runs_of_another_machine_beside_those_of_this_one(
    shell: Shell, client: Client, queue: str, tmp_path: Path
) -> None:
    records = Records(tmp_path / "home/skep/pipelines")
    run = records.begin(
        "archive-1",
        pipeline="archive",
        url=shell.environment["SKEP_URL"],
        queues=(queue,),
        target="a",
    )
    client.pipelines.put(a_run(queue, queues=(queue,), host="mill", state="done", messages=3))

    shown = {each["id"]: each for each in shell.json("pipeline", "status")}
    records.end(run, "done")

    assert (shown[queue]["host"], shown[queue]["messages"]) == ("mill", 3)
    assert (shown[run.id]["host"], shown[run.id]["state"]) == (this_host(), "running")
    assert shown[run.id]["checkpoint"] == run.checkpoint


def test_without_a_server_the_status_shows_the_runs_of_this_machine(tmp_path: Path) -> None:
    alone = Shell("http://127.0.0.1:1", XDG_DATA_HOME=str(tmp_path))
    records = Records(tmp_path / "skep/pipelines")
    run = records.begin(
        "archive-1", pipeline="archive", url="http://127.0.0.1:1", queues=("q",), target="a"
    )
    records.end(run, "done")

    done = alone.run("pipeline", "status")

    assert run.id in done.stdout
    assert f"showing only runs of {this_host()}" in done.stderr
