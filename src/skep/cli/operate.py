"""What operators ask of a server and the clients have no words for yet."""

from typing import Any, TypeVar

from skep.cli.connect import connect
from skep.client.connection import Request, delete, post, read
from skep.client.sync_client import Client
from skep.wire.paths import API, segment

T = TypeVar("T")


class Operator:
    """A client for the routes of operators, with the client's own retries and errors."""

    def __init__(self, url: str, token: str | None) -> None:
        self.client: Client = connect(url, token)

    def __enter__(self) -> "Operator":
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def get(self, path: str, kind: type[T], **query: object) -> T:
        return self._send(read(path, **query), kind)

    def post(self, path: str, body: object, kind: type[T]) -> T:
        return self._send(post(path, body, repeatable=False), kind)

    def delete(self, path: str, kind: type[T], **query: object) -> T:
        return self._send(delete(path, **query), kind)

    def _send(self, request: Request, kind: type[T]) -> T:
        return self.client.connection.send(request).decode(kind)


def path(*parts: Any) -> str:
    """A path of the API, in which any name can stand."""
    return "/".join([API, *(segment(str(part)) for part in parts)])
