"""A load balancer: each connection goes to the next server, and so does each request of Spark."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from urllib.parse import urlsplit


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def _serve(client: socket.socket, address: tuple[str, int]) -> None:
    with client, suppress(OSError), socket.create_connection(address) as server:
        asking = threading.Thread(target=_copy, args=(client, server), daemon=True)
        asking.start()
        _copy(server, client)
        asking.join()


@contextmanager
def balancer(urls: Sequence[str]) -> Iterator[str]:
    """The URL behind which the servers are, in turns."""
    parts = [urlsplit(url) for url in urls]
    addresses = cycle([(part.hostname or "", part.port or 0) for part in parts])
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                address = next(addresses)
                threading.Thread(target=_serve, args=(client, address), daemon=True).start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        # Closing alone does not wake who accepts.
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        accepting.join()
