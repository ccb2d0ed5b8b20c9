"""The connector against a real server that is guarded, killed, or has lost something."""

from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from pyspark_skep import DataLost, RequestRejected
from pyspark_skep.column import MESSAGE_COLUMNS, SourceColumn, columns_of
from pyspark_skep.options import Options, parse_options
from pyspark_skep.reader import BatchReader, read_split
from skep import Client, Draft
from skep.http.auth.api_key import create_key
from skep.http.auth.api_key_file import add_key
from tests.spark.conftest import Push
from tests.support.postgres_databases import databases
from tests.support.server_process import ServerProcess

POSITION = (SourceColumn("position", "long"),)


def read(options: Options, columns: Any = POSITION) -> Iterator[int]:
    for split in BatchReader(options, columns).partitions():
        for batch in read_split(options, columns, split):
            yield from batch.column(0).to_pylist()


def test_a_server_that_is_killed_while_it_is_read_is_waited_for(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data")
    server.start()
    try:
        with Client(server.url) as client:
            for _ in range(20):
                client.push("a", [Draft(b"x" * 10_000)] * 100)
        found = read(Options(server.url, queue=("a",), batch_rows=10), columns_of(Options())[2:3])
        some = [next(found)]
        server.end(SIGKILL)
        server.start()
        some.extend(found)
    finally:
        server.end(SIGKILL)

    assert some == list(range(2000))


@pytest.mark.parametrize(("rows", "sizes"), [(5, [10, 10, 10]), (15, [20, 10]), (30, [30])])
def test_a_record_batch_ends_with_the_segment_that_makes_it_full(
    url: str, queue: str, push: Push, rows: int, sizes: list[int]
) -> None:
    for _ in range(3):
        push(10)
    options = Options(url, queue=(queue,), batch_rows=rows)
    (split,) = BatchReader(options, POSITION).partitions()

    found = read_split(options, POSITION, split)

    assert [batch.num_rows for batch in found] == sizes


def test_messages_that_were_removed_are_named_or_passed_over(
    url: str, queue: str, client: Client, push: Push
) -> None:
    push(10)
    options = Options(url, queue=(queue,))
    (split,) = BatchReader(options, MESSAGE_COLUMNS).partitions()
    client.queues.clear(queue)
    lenient = Options(url, queue=(queue,), fail_on_data_loss=False)

    with pytest.raises(DataLost, match=rf"messages 0 to 9 of lane 0 of queue '{queue}'"):
        list(read_split(options, POSITION, split))
    assert list(read_split(lenient, POSITION, split)) == []
    assert list(read(options)) == []


def test_every_way_to_give_a_token_opens_a_guarded_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = create_key(["admin"])
    add_key(tmp_path / "keys.json", key.entry)
    (tmp_path / "token").write_text(f"{key.text}\n")
    monkeypatch.setenv("SKEP_TEST_KEY", key.text)

    with ServerProcess("memory://", "--api-keys", str(tmp_path / "keys.json")) as server:
        with Client(server.url, token=key.text) as client:
            client.push("a", [Draft(b"1")])
        for given in (
            {"token": key.text},
            {"tokenFile": str(tmp_path / "token")},
            {"tokenEnv": "SKEP_TEST_KEY"},
        ):
            assert list(read(parse_options({"url": server.url, "queue": "a", **given}))) == [0]
        with pytest.raises(RequestRejected, match="tokenFile"):
            list(read(Options(server.url, queue=("a",))))


def test_what_several_servers_commit_is_read_from_any_of_them() -> None:
    store = databases().empty()
    with ServerProcess(store) as one, ServerProcess(store) as other:
        for server in (one, other, one):
            with Client(server.url) as client:
                client.push("a", [Draft(b"%d" % number, f"p{number}") for number in range(10)])
        columns = (
            SourceColumn("partition"),
            SourceColumn("offset", "long"),
            SourceColumn("lane", "int"),
        )
        rows = []
        for server in (one, other):
            options = Options(server.url, queue=("a",), min_partitions=4)
            for split in BatchReader(options, columns).partitions():
                for batch in read_split(options, columns, split):
                    rows += [tuple(row.values()) for row in batch.to_pylist()]

    assert sorted(row[:2] for row in rows) == [
        (f"p{number}", offset) for number in range(10) for offset in (0, 0, 1, 1, 2, 2)
    ]
    assert len({row[2] for row in rows}) == 2
