"""How commands end when the answer does not come."""

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.support.cli_shell import Shell


@pytest.fixture
def mute() -> Iterator[Shell]:
    """A server that takes requests and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        threading.Thread(target=_listen, args=(door,), daemon=True).start()
        yield Shell(f"http://127.0.0.1:{door.getsockname()[1]}")
        door.shutdown(socket.SHUT_RDWR)


def _listen(door: socket.socket) -> None:
    while True:
        try:
            guest, _ = door.accept()
        except OSError:
            return
        with guest:
            guest.recv(65536)


def test_an_answer_that_is_lost_is_5(mute: Shell) -> None:
    said = mute.said("queue", "delete", "orders", "--yes", expect=5)

    assert "check whether it was applied before retrying" in said


def test_the_version_is_told() -> None:
    assert Shell("").run("--version").stdout.startswith("skep 0.")
