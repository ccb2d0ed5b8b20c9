"""A directory belongs to one run, and a queue removes only what was seen in its archive."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from skep.errors import Conflict
from skep.pipelines.files import Files, LocalFiles, SparkFiles
from skep.pipelines.output import Owner, claim, find_owner
from tests.spark.conftest import messages_in
from tests.support.broker_builders import a_run
from tests.support.cli_shell import Shell
from tests.support.spark.archive_server import HOUR, Scene, archived, open_scene

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

RUN = ("pipeline", "run")
ARCHIVE = (*RUN, "archive")
REMOVE = ("--remove-after", "1h")


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


def a_owner(path: Path) -> Owner:
    return Owner(id="archive-1", path=str(path), pipeline="archive", store="s", queues=("q",))


def owner(to: str) -> Owner:
    found = find_owner(LocalFiles(), to)
    assert found is not None
    return found


# One run for each directory.


def test_an_archive_of_other_queues_in_the_same_directory_is_refused_and_loses_nothing(
    spark: SparkSession, scene: Scene, shell: Shell, to: str
) -> None:
    scene.push("abc", "orders")
    scene.push("def", "payments")
    shell.run(*ARCHIVE, "--to", to, "--queue", "orders")

    said = shell.said(*ARCHIVE, "--to", to, "--queue", "payments", *REMOVE, expect=1)
    scene.advance(24 * HOUR)
    scene.sweep()

    assert f"{to} belongs to run {owner(to).id}, archive of orders in store " in said
    assert "differs in queues (--queue): give it another --to, or the same as that run" in said
    assert (archived(spark, to), scene.kept("payments")) == ("abc", "def")
    assert not scene.client.queues.get("payments").options.retention_enabled


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (
            ("transform", "--queue", "orders", "--sql", "SELECT * FROM orders"),
            "differs in pipeline",
        ),
        (("archive", "--queue", "orders", "--checkpoint", "elsewhere"), "differs in --checkpoint"),
        (("archive",), "differs in queues"),
        (("analytics",), "give another --to"),
        (("traces",), "give another --to"),
        (("dead-letters",), "give another --to"),
    ],
)
def test_another_run_in_the_same_directory_is_refused(
    spark: SparkSession, scene: Scene, shell: Shell, to: str, other: tuple[str, ...], words: str
) -> None:
    scene.push("abc")
    shell.run(*ARCHIVE, "--to", to, "--queue", "orders")

    said = shell.said(*RUN, *other, "--to", to, expect=1)

    assert words in said
    assert owner(to).id in said
    assert archived(spark, to) == "abc"


def test_another_statement_in_the_same_directory_is_refused(
    scene: Scene, shell: Shell, to: str
) -> None:
    scene.push("abc")
    command = (*RUN, "transform", "--queue", "orders", "--to", to, "--sql")
    shell.run(*command, "SELECT payload FROM orders")

    said = shell.said(*command, "SELECT offset FROM orders", expect=1)

    assert "differs in statement, function or schema" in said


def test_the_same_queues_of_another_store_are_another_run(
    scene: Scene, shell: Shell, to: str
) -> None:
    scene.push("abc")
    shell.run(*ARCHIVE, "--to", to, "--queue", "orders")

    with open_scene() as other:
        other.push("def")
        said = shell.said(*ARCHIVE, "--to", to, "--queue", "orders", "--url", other.url, expect=1)

    assert "differs in store (--url)" in said


def test_an_archive_goes_on_through_another_url_by_another_user(
    spark: SparkSession, scene: Scene, shell: Shell, to: str, tmp_path: Path
) -> None:
    scene.push("abc")
    shell.run(*ARCHIVE, "--to", to)
    scene.push("de")
    somebody = Shell(scene.url, XDG_DATA_HOME=str(tmp_path / "somebody"))

    with scene.other_url() as url:
        done = shell.json(*ARCHIVE, "--to", to, "--url", url)
    scene.push("f")
    theirs = somebody.json(*ARCHIVE, "--to", to)

    assert (done["archived"], theirs["archived"], theirs["archivedInAll"]) == (2, 1, 6)
    assert {done["run"], theirs["run"]} == {owner(to).id}
    assert archived(spark, to) == "abcdef"


def test_an_archive_that_was_moved_is_refused(scene: Scene, shell: Shell, to: str) -> None:
    """Spark would not find its files."""
    scene.push("abc")
    shell.run(*ARCHIVE, "--to", to)
    Path(to).rename(f"{to}-moved")

    said = shell.said(*ARCHIVE, "--to", f"{to}-moved", expect=1)

    assert f"was moved or copied from {to}" in said


def test_the_order_of_queues_makes_no_other_archive(scene: Scene, shell: Shell, to: str) -> None:
    scene.push("a", "one")
    scene.push("b", "two")

    shell.run(*ARCHIVE, "--to", to, "--queue", "one", "--queue", "two")
    scene.push("c", "one")
    again = shell.json(*ARCHIVE, "--to", to, "--queue", "two", "--queue", "one")

    assert again["archived"] == 1


@pytest.mark.parametrize("lost", ["_skep/checkpoint", "_spark_metadata"])
def test_an_archive_that_has_lost_where_it_was_is_refused(
    scene: Scene, shell: Shell, to: str, lost: str
) -> None:
    scene.push("abc")
    shell.run(*ARCHIVE, "--to", to)
    shutil.rmtree(Path(to) / lost)
    scene.push("def")

    said = shell.said(*ARCHIVE, "--to", to, *REMOVE, expect=1)
    scene.advance(24 * HOUR)
    scene.sweep()

    assert "is lost, or older than it" in said
    assert scene.kept() == "abcdef"


def test_a_directory_without_a_mark_is_for_the_run_whose_checkpoint_wrote_it(
    spark: SparkSession, scene: Scene, shell: Shell, to: str, tmp_path: Path
) -> None:
    """As a version left it that made no marks."""
    scene.push("abc")
    scene.push("x", "other")
    own, foreign = str(tmp_path / "own"), str(tmp_path / "foreign")
    command = (*ARCHIVE, "--queue", "orders", "--to", to)
    shell.run(*command, "--checkpoint", own)
    shell.run(*ARCHIVE, "--queue", "other", "--to", f"{to}-other", "--checkpoint", foreign)
    shutil.rmtree(Path(to) / "_skep")
    scene.push("de")

    for checkpoint in ((), ("--checkpoint", foreign), ("--checkpoint", str(tmp_path / "new"))):
        said = shell.said(*command, *checkpoint, expect=1)
        assert "is the output of a stream that does not say of which" in said
    done = shell.json(*command, "--checkpoint", own)
    # From then on it is known.
    again = shell.json(*command)

    assert (done["archived"], again["archived"]) == (2, 0)
    assert archived(spark, to) == "abcde"


def test_an_archive_is_not_run_twice_at_once(scene: Scene, shell: Shell, to: str) -> None:
    scene.push("abc")
    shell.run(*ARCHIVE, "--to", to)

    with LocalFiles().lock(f"{to}/_skep/lock"):
        here = shell.said(*ARCHIVE, "--to", to, expect=1)
    scene.client.pipelines.put(a_run(owner(to).id, host="mill-7", queues=()))
    elsewhere = shell.said(*ARCHIVE, "--to", to, expect=1)

    assert f"another process holds {to}/_skep/lock" in here
    assert "is already running on mill-7" in elsewhere


def test_a_directory_that_cannot_be_written_is_refused(
    scene: Scene, shell: Shell, tmp_path: Path
) -> None:
    scene.push("a")
    (tmp_path / "file").write_text("")

    said = shell.said(*ARCHIVE, "--to", str(tmp_path / "file"), expect=1)

    assert f"{tmp_path}/file/_skep/lock cannot be made: Not a directory" in said


def test_a_directory_that_only_spark_can_reach_is_marked_as_well(
    spark: SparkSession, scene: Scene, shell: Shell, to: str
) -> None:
    scene.push("abc")
    remote = f"file://{to}"
    shell.run(*ARCHIVE, "--to", remote, "--queue", "orders")
    scene.push("d")
    scene.push("x", "other")

    again = shell.json(*ARCHIVE, "--to", remote, "--queue", "orders", *REMOVE)
    said = shell.said(*ARCHIVE, "--to", remote, "--queue", "other", expect=1)

    assert again["archived"] == 1
    assert f"belongs to run {owner(to).id}" in said
    assert archived(spark, to) == "abcd"


# Marks.


@pytest.fixture(params=["local", "spark"])
def files(request: pytest.FixtureRequest, spark: SparkSession) -> Files:
    return LocalFiles() if request.param == "local" else SparkFiles(lambda: spark)


def test_a_mark_is_made_once(files: Files, tmp_path: Path) -> None:
    path = str(tmp_path / "some/mark")

    assert files.read(path) is None
    files.create(path, "first")
    files.create(path, "second")

    assert (files.read(path), LocalFiles().read(path)) == ("first", "first")
    assert files.names(str(tmp_path / "nothing")) == []


def test_a_mark_that_was_not_finished_is_none(files: Files, tmp_path: Path) -> None:
    (tmp_path / "_skep/run").mkdir(parents=True)

    wanted = a_owner(tmp_path)
    assert claim(lambda _: files, wanted) == wanted


def test_a_damaged_mark_is_not_replaced(files: Files, tmp_path: Path) -> None:
    files.create(str(tmp_path / "_skep/run"), '{"id": 7}')

    with pytest.raises(Conflict, match="does not name a run"):
        claim(lambda _: files, a_owner(tmp_path))


# Only what was seen in the archive is removed.


def parquet_of(to: str, queue: str) -> list[Path]:
    return sorted(Path(to).glob(f"queue={queue}/date=*/*.parquet"))


@pytest.mark.parametrize("damage", ["deleted", "cut off"])
def test_what_an_archive_has_lost_is_named_and_stays_in_its_queue(
    spark: SparkSession, scene: Scene, shell: Shell, to: str, damage: str
) -> None:
    scene.push("aAbBcC")
    scene.push("x", "other")
    shell.run(*ARCHIVE, "--to", to)
    for path in parquet_of(to, "orders"):
        path.unlink() if damage == "deleted" else path.write_bytes(path.read_bytes()[:-9])

    said = shell.said(*ARCHIVE, "--to", to, *REMOVE, expect=1)
    scene.advance(24 * HOUR)

    assert (
        f"the archive {to} lacks 6 messages: queue 'orders' partition 'p0' offsets 0 to 2" in said
    )
    assert "queue 'orders' partition 'p1' offsets 0 to 2" in said
    assert scene.sweep() == 0
    assert scene.kept() + scene.kept("other") == "ABCabcx"


def test_a_queue_whose_archive_loses_files_keeps_its_messages_from_then_on(
    scene: Scene, shell: Shell, to: str
) -> None:
    command = (*ARCHIVE, "--to", to, "--queue", "orders")
    scene.push("ab")
    shell.run(*command, *REMOVE)
    for path in parquet_of(to, "orders"):
        path.unlink()

    # Also without the option, because the queue would still remove.
    shell.said(*command, expect=1)
    scene.advance(24 * HOUR)

    assert (scene.sweep(), scene.kept()) == (0, "ab")
    assert scene.client.queues.get("orders").options.completed_retention_seconds == 0


def test_a_group_does_not_pass_what_was_not_read_back(scene: Scene, shell: Shell, to: str) -> None:
    """As after a process was killed between a batch and its check."""
    scene.push("ab")
    shell.run(*ARCHIVE, "--to", to, "--queue", "orders", *REMOVE)
    group = f"pipeline-{owner(to).id}"
    scene.client.groups.delete("orders", group)
    scene.client.queues.configure("orders")
    for path in parquet_of(to, "orders"):
        path.unlink()

    said = shell.said(*ARCHIVE, "--to", to, "--queue", "orders", expect=1)

    assert "lacks 2 messages" in said
    (found,) = [each for each in scene.client.groups.list() if each.group == group]
    assert found.backlog == 2


def test_what_was_removed_need_not_be_in_the_archive_any_more(
    scene: Scene, shell: Shell, to: str
) -> None:
    """An archive of which old days were thrown away goes on."""
    command = (*ARCHIVE, "--to", to, "--queue", "orders", *REMOVE)
    scene.push("ab")
    shell.run(*command)
    scene.advance(24 * HOUR)
    assert scene.sweep() == 2
    for path in parquet_of(to, "orders"):
        path.unlink()
    scene.push("cd")

    assert shell.json(*command)["archived"] == 2
    scene.advance(24 * HOUR)
    assert scene.sweep() == 2


# Runs without a directory.


def test_what_was_replayed_is_not_replayed_through_another_url_or_by_another_user(
    scene: Scene, shell: Shell, tmp_path: Path
) -> None:
    scene.push("abc")
    command = (*RUN, "replay", "--queue", "orders", "--to", "copy", "--ids", "new")
    shell.run(*command)

    with scene.other_url() as url:
        again = shell.run(*command, "--url", url)
    theirs = Shell(scene.url, XDG_DATA_HOME=str(tmp_path / "somebody")).run(*command)

    assert "3 messages were replayed before" in again.stdout
    assert "3 messages were replayed before" in theirs.stdout
    assert len(messages_in(scene.client, "copy")) == 3


def test_a_transformation_goes_on_through_another_url_and_not_without_its_checkpoint(
    scene: Scene, shell: Shell, tmp_path: Path
) -> None:
    scene.push("abc")
    command = (
        *(*RUN, "transform", "--queue", "orders", "--to-queue", "copy"),
        *("--sql", "SELECT payload FROM orders"),
    )
    shell.run(*command)
    scene.push("d")

    with scene.other_url() as url:
        again = shell.json(*command, "--url", url)
    somebody = Shell(scene.url, XDG_DATA_HOME=str(tmp_path / "somebody"))
    said = somebody.said(*command, expect=1)

    assert again["read"] == 1
    assert "has read 4 messages" in said
    assert "with a new --checkpoint it is a new run" in said
    assert scene.kept("copy") == "abcd"
