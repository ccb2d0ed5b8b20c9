"""What a reader is told at once because another attempt would not help."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

import skep
from pyspark_skep import RequestRejected, http_client, reader
from pyspark_skep.column import SourceColumn
from pyspark_skep.http_client import HttpClient
from pyspark_skep.options import Options
from pyspark_skep.plan import Split
from pyspark_skep.position import slices_between
from pyspark_skep.reader import read_split
from skep import Client, Draft, KeyRing
from skep.errors import EncryptionUnavailable
from tests.spark.conftest import messages_in
from tests.support.cli_shell import Shell
from tests.support.in_process_server import serving

KEYS = KeyRing({"2030": bytes(32)}, current="2030")
RING = "queue 'orders': key '2030' is not in the key ring; add it to the file of"


@pytest.fixture
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture(autouse=True)
def no_second_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    def retry_delay(*_: Any) -> float:
        raise AssertionError("it was tried again")

    for module in (http_client, reader):
        monkeypatch.setattr(module, "retry_delay", retry_delay)


@pytest.fixture
def locked(portal: BlockingPortal, tmp_path: Path) -> Iterator[str]:
    """The URL of a server without the key of the messages that it has."""
    place = tmp_path / "store"
    with (
        portal.wrap_async_context_manager(skep.open(place, keys=KEYS)) as broker,
        portal.wrap_async_context_manager(serving(broker)) as url,
        Client(url) as client,
    ):
        client.queues.configure("orders", encryption_enabled=True)
        client.push("orders", [Draft(b"secret")])
    with (
        portal.wrap_async_context_manager(skep.open(place)) as broker,
        portal.wrap_async_context_manager(serving(broker)) as url,
    ):
        yield url


def read(url: str, queue: str, **chosen: Any) -> list[Any]:
    """What tasks read of a queue."""
    options = Options(url, queue=(queue,), **chosen)
    found = HttpClient(options).request_json("POST", "/api/v1/journal/heads", options.selection)
    slices = slices_between(found["first"], found["heads"], strict=True)
    kind = "string" if options.payload_format == "text" else "binary"
    batches = read_split(options, (SourceColumn("payload", kind),), Split(tuple(slices)))
    return [value for batch in batches for value in batch.column(0).to_pylist()]


def test_a_task_that_lacks_a_key_says_which_and_does_not_try_again(locked: str) -> None:
    with pytest.raises(RequestRejected, match=RING):
        read(locked, "orders")


def test_a_client_that_lacks_a_key_says_which_and_does_not_try_again(locked: str) -> None:
    with Client(locked) as client:
        with pytest.raises(EncryptionUnavailable, match=RING):
            client.pop("orders", partition="Default")
        with pytest.raises(EncryptionUnavailable, match="queue 'orders' is encrypted, but no key"):
            client.push("orders", [Draft(b"more")])


def test_a_payload_that_is_no_text_is_named_and_can_be_read_as_binary(
    client: Client, url: str, queue: str
) -> None:
    drafts = [Draft(b"fine", "p0"), Draft(b"\xc3", "p1"), Draft(b"\xa4 is none", "p1")]
    receipt = client.push(queue, drafts)[1]

    with pytest.raises(RequestRejected) as refused:
        read(url, queue)

    assert str(refused.value) == (
        f"payload: message {receipt.id} (queue {queue!r}, partition 'p1', offset 0) is not UTF-8 "
        "text: read it with payloadFormat=binary"
    )
    assert read(url, queue, payload_format="binary") == [draft.payload for draft in drafts]


@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("spark")
def test_a_transformation_names_a_payload_that_is_no_text_and_goes_on_with_bytes(
    client: Client, url: str, queue: str, tmp_path: Path
) -> None:
    shell = Shell(url, XDG_DATA_HOME=str(tmp_path / "home"))
    bad = b'{"a": "\xff"}'
    (receipt,) = client.push(queue, [Draft(bad)])
    client.push(queue, [Draft(b'{"a": "x"}')])
    statement = "SELECT data.a AS partition, payload FROM QUEUE"
    command = (
        *("pipeline", "run", "transform", "--queue", queue, "--to-queue", f"{queue}-copy"),
        *("--schema", "a STRING", "--sql", statement.replace("QUEUE", f"`{queue}`")),
    )

    said = shell.said(*command, expect=1)
    done = shell.json(*command, "--payload-format", "binary")

    assert f"message {receipt.id} (queue {queue!r}, partition 'Default', offset 0)" in said
    assert "read it with --payload-format binary" in said
    assert done["read"] == 2
    found = {message.payload: message.partition for message in messages_in(client, f"{queue}-copy")}
    assert found == {bad: "Default", b'{"a": "x"}': "x"}


@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("spark")
def test_a_pipeline_that_lacks_a_key_says_which(locked: str, tmp_path: Path) -> None:
    shell = Shell(locked, XDG_DATA_HOME=str(tmp_path / "home"))

    said = shell.said("pipeline", "run", "archive", "--to", str(tmp_path / "a"), expect=1)

    assert f"archive failed: encryption: {RING}" in said
