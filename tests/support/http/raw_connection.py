"""A connection to a server, byte by byte."""

import os
import re
import socket
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.server_process import ServerProcess

SOON = 20.0
"""Seconds after which a test takes it that something will never happen."""
ITEM = b'{"items":[{"queue":"orders","payload":1}]}'


class Raw:
    """What is sent is sent as it is; reading ends when the server closes the connection."""

    def __init__(self, server: ServerProcess, *, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(SOON)
        self.socket.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))

    def send(self, data: bytes) -> None:
        """Send all of it, unless the server has closed the connection before."""
        with suppress(ConnectionError):
            self.socket.sendall(data)

    def read_until(self, end: bytes) -> bytes:
        data = b""
        while end not in data:
            some = self.socket.recv(1 << 16)
            assert some, data
            data += some
        return data

    def read(self) -> bytes:
        """All that comes until the connection is closed."""
        data = b""
        with suppress(ConnectionError):
            while some := self.socket.recv(1 << 16):
                data += some
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.socket.close()


def exchange(server: ServerProcess, *pieces: bytes) -> bytes:
    """Send pieces on a connection of their own; what comes back until it is closed."""
    with Raw(server) as raw:
        for piece in pieces:
            raw.send(piece)
        return raw.read()


def statuses(data: bytes) -> list[int]:
    """The status of each response."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3})(?! Continue)", data)]


def request(
    target: bytes, *headers: bytes, body: bytes | None = None, method: bytes = b"POST"
) -> bytes:
    """A request with a Host, and with a Content-Length if there is a body."""
    lines = [method + b" " + target + b" HTTP/1.1", b"Host: localhost", *headers]
    if body is not None:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*lines, b"", body or b""])


def push(*headers: bytes) -> bytes:
    return request(b"/api/v1/push", *headers, body=ITEM)


def get(target: bytes, *headers: bytes) -> bytes:
    return request(target, *headers, method=b"GET")


def megabytes(server: ServerProcess) -> float:
    """The memory of the server's process."""
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
