"""What is said around pipelines: which there are, what is wrong, how they are."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from skep.cli.pipeline.app import PIPELINES
from skep.cli.pipeline.options import Place, seconds_of
from skep.errors import Conflict
from skep.pipelines.record import Records, identity_of
from skep.pipelines.run import reason_of
from tests.spark.conftest import Push, own_run
from tests.support.cli_shell import Shell

RUN = ("pipeline", "run")
PAGE = (Path(__file__).parents[2] / "docs/how-to/pipelines.md").read_text()


@pytest.fixture
def alone(tmp_path: Path) -> Shell:
    """Where there is no server."""
    return Shell("http://127.0.0.1:1", XDG_DATA_HOME=str(tmp_path))


def test_the_list_has_every_pipeline(alone: Shell) -> None:
    assert list(alone.json("pipeline", "list")) == list(PIPELINES)


@pytest.mark.parametrize("name", PIPELINES)
def test_every_pipeline_has_a_section_on_the_page(name: str) -> None:
    assert f"\n## {name}\n" in PAGE
    assert f"$ skep pipeline run {name} " in PAGE


def test_the_steps_on_the_page_can_be_imported() -> None:
    rows = re.findall(r"^\| `(skep\.pipelines\.steps\.\w+)` \| (.*) \|$", PAGE, re.MULTILINE)

    missing = [
        (module, step)
        for module, steps in rows
        for step in re.findall(r"`(\w+)`", steps)
        if not callable(getattr(import_module(module), step, None))
    ]

    assert len(rows) == len(PIPELINES)
    assert missing == []


def test_the_list_needs_no_spark() -> None:
    program = """
import sys
sys.modules["pyspark"] = None
sys.argv = ["skep", "pipeline", "list"]
from skep.cli import main
main()
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


def test_a_pipeline_that_is_misspelt_is_set_right(alone: Shell) -> None:
    assert "Did you mean 'archive'" in alone.misused(*RUN, "archiv")


def test_a_missing_server_is_named_before_spark_is_started(alone: Shell, tmp_path: Path) -> None:
    said = alone.said(*RUN, "archive", "--to", str(tmp_path / "a"), expect=3)

    assert "start a server with skep serve" in said
    assert alone.json("pipeline", "status") == []


def test_a_queue_that_is_misspelt_is_set_right(shell: Shell, push: Push, queue: str) -> None:
    push(1)

    said = shell.misused(*RUN, "archive", "--to", "a", "--queue", f"{queue}x")

    assert f"did you mean '{queue}'?" in said


def test_a_missing_java_is_named(shell: Shell, push: Push, queue: str, tmp_path: Path) -> None:
    push(1)
    shell.environment["JAVA_HOME"] = str(tmp_path)

    said = shell.said(*RUN, "archive", "--to", str(tmp_path / "a"), "--queue", queue, expect=3)

    assert "Spark needs Java 17 or newer" in said
    run = own_run(shell)
    assert (run["state"], run["lag"]) == ("failed", None)


@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("spark")
def test_what_spark_says_about_a_statement_is_said_in_a_line(
    shell: Shell, push: Push, queue: str
) -> None:
    push(1)
    statement = "SELECT nothing FROM QUEUE".replace("QUEUE", f"`{queue}`")

    said = shell.said(
        *(*RUN, "transform", "--queue", queue, "--to-queue", "other", "--sql", statement), expect=1
    )

    assert "transform failed: " in said
    assert "`nothing` cannot be resolved" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("replay",), "--archive or --queue"),
        (("replay", "--archive", "a", "--queue", "q"), "--archive or --queue"),
        (("transform", "--queue", "q", "--to", "a"), "--sql or --function"),
        (("transform", "--queue", "q", "--sql", "SELECT 1"), "--to-queue or --to"),
        (("archive", "--to", "a", "--follow", "--every", "soon"), "must be a duration such as 10s"),
        (("traces", "--to", "s3://a/b"), "--report is required"),
    ],
)
def test_what_says_nothing_or_two_things_is_refused(
    alone: Shell, arguments: tuple[str, ...], words: str
) -> None:
    assert words in alone.misused(*RUN, *arguments)


def test_a_run_whose_process_is_gone_was_interrupted(alone: Shell, tmp_path: Path) -> None:
    records = Records(tmp_path / "skep/pipelines")
    run = records.begin(
        "archive-1", pipeline="archive", url="http://127.0.0.1:1", queues=("q",), target="a"
    )

    assert alone.json("pipeline", "status")[0]["state"] == "running"
    records.release(run)

    assert alone.json("pipeline", "status")[0]["state"] == "interrupted"


def test_a_run_is_another_by_what_it_is_about_and_where_it_keeps_its_place() -> None:
    def identity(**changed: Any) -> str:
        same: dict[str, Any] = {"store": "s", "queues": ("q",), "target": "to", "about": ("x",)}
        return identity_of("transform", **same | changed)

    others = [
        identity(store="other"),
        identity(queues=("q", "r")),
        identity(target="elsewhere"),
        identity(about=("y",)),
        identity(checkpoint="s3://place"),
    ]

    assert identity() == identity()
    assert len({identity(), *others}) == 6


def test_a_run_is_begun_once_at_a_time_and_goes_on_with_what_it_has(tmp_path: Path) -> None:
    records = Records(tmp_path)
    same: dict[str, Any] = {"pipeline": "archive", "url": "http://s", "queues": ("q",)}
    first = records.begin("archive-1", target="a", **same)
    records.tell(first, 10)
    with pytest.raises(Conflict, match="is running already"):
        records.begin("archive-1", target="a", **same)
    records.end(first, "done")

    again = records.begin("archive-1", target="a", **same)
    other = records.begin("archive-2", target="b", **same)

    assert (again.id, again.messages, other.messages) == (first.id, 10, 0)
    assert {run.id for run in records.list()} == {first.id, other.id}
    records.release(again)
    records.release(other)


def test_paths_mean_the_same_from_everywhere_unless_they_are_another_machines() -> None:
    assert Place().located("a") == str(Path.cwd() / "a")
    assert Place().located("s3://a") == "s3://a"
    assert Place(remote="sc://host").located("a") == "a"
    assert Place(master="spark://host").located("a") == "a"


def test_times_have_units() -> None:
    assert [seconds_of(text) for text in ("250ms", "10s", "15m", "2h", "1d")] == [
        *(0.25, 10, 900, 7200, 86400)
    ]


def test_the_reason_is_found_in_what_spark_says() -> None:
    ours = "[STREAM_FAILED] x\nTraceback\npyspark_skep.errors.DataLost: messages were removed\n"

    assert reason_of(RuntimeError(ours)) == "messages were removed"
    assert reason_of(RuntimeError("\nfirst\nsecond")) == "first"
    assert reason_of(RuntimeError()) == "RuntimeError"
