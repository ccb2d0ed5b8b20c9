"""What operators ask of a server and the clients have no words for yet."""

from collections.abc import Mapping
from typing import Any, TypeVar

from skep.cli.connect import connect
from skep.client.connection import Request, post, read
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
        return self._send(read(path, _query(query)), kind)

    def post(self, path: str, body: object, kind: type[T]) -> T:
        return self._send(post(path, body, repeatable=False), kind)

    def delete(self, path: str, kind: type[T], **query: object) -> T:
        return self._send(Request("DELETE", path, _query(query)), kind)

    def _send(self, request: Request, kind: type[T]) -> T:
        return self.client._send(request).decode(kind)


def _query(query: Mapping[str, object]) -> dict[str, str]:
    """Arguments as they stand in a URL; a name that Python keeps for itself has a line behind."""
    return {
        name.rstrip("_"): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in query.items()
        if value is not None
    }


def path(*parts: Any) -> str:
    """A path of the API, in which any name can stand."""
    return "/".join([API, *(segment(str(part)) for part in parts)])
