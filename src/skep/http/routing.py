"""Routes, and the router that finds them."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

from skep.errors import Forbidden, Invalid
from skep.http.auth.principal import Permission
from skep.http.codec import MAX_CACHED_BYTES
from skep.http.limits import MB
from skep.http.request import HttpRequest, HttpResponse

Handler: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]
Queues: TypeAlias = Callable[[HttpRequest], Iterable[str] | Awaitable[Iterable[str]]]


def no_queue(request: HttpRequest) -> Iterable[str]:
    """For a route that names no queue and shows only queues that the caller may see."""
    return ()


def every_queue(request: HttpRequest) -> Iterable[str]:
    """For a route that affects every queue: rejects callers that are restricted to some."""
    raise Forbidden("this affects every queue, and you may access only some of them")


def named_queue(request: HttpRequest) -> Iterable[str]:
    """For a route with the queue in its path."""
    return (request.params["queue"],)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A method and path, its handler, and what the server checks and documents."""

    method: str
    path: str
    handler: Handler
    needs: Permission
    queues: Queues
    """The queues that a request names: the caller must have access to each of them."""
    summary: str
    """One sentence for the documentation."""
    body: Any = None
    body_bytes: int = MB
    """Maximum size of the body, unless the server's limit is lower. A body with lists of structures
    needs no limit, because these are decoded one by one."""
    takes: str | None = None
    """The media type of a body that the handler gets undecoded."""
    query: Any = None
    response: Any = None
    """The type of the response; a tuple if there are several."""
    status: int = 200
    may_be_empty: bool = False
    """Whether 204 is a possible status."""
    media_type: str = "application/json"
    fields: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Names of the core that differ from those in the body and the query, and the latter."""
    names: tuple[str, ...] = field(init=False)
    """The parameters in the path, in order."""

    def __post_init__(self) -> None:
        parts = (part for part in self.path.split("/") if part.startswith("{"))
        object.__setattr__(self, "names", tuple(part[1:-1] for part in parts))
        self._check()

    def _check(self) -> None:
        """A route without a permission would be open to every caller: it cannot be constructed."""
        if not isinstance(self.needs, Permission):
            raise TypeError(f"{self.method} {self.path} must declare a permission")
        if not callable(self.queues):
            raise TypeError(f"{self.method} {self.path} must declare its queues")
        if "queue" in self.names and self.queues is no_queue:
            raise TypeError(f"{self.method} {self.path} has a queue in its path but declares none")


get = partial(Route, method="GET")
post = partial(Route, method="POST")
delete = partial(Route, method="DELETE")


class Router:
    """Finds routes by method and path. Segments are compared decoded, so that names may contain any
    character; a fixed segment takes precedence over a parameter."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = routes
        self._fixed: dict[bytes, dict[str, Route]] = {}
        self._tree: dict[Any, Any] = {}
        # Consumers request the same path many times.
        self._found = lru_cache(maxsize=4096)(self._look)
        for route in routes:
            by_method = self._place(route.path)
            if route.method in by_method:
                raise ValueError(f"duplicate route: {route.method} {route.path}")
            by_method[route.method] = route

    def find(self, path: bytes) -> tuple[dict[str, Route], tuple[str, ...]] | None:
        """The routes at a raw path by method, and the values of its parameters in order."""
        fixed = self._fixed.get(path)
        if fixed is not None:
            return fixed, ()
        return self._found(path) if len(path) <= MAX_CACHED_BYTES else self._look(path)

    def _look(self, path: bytes) -> tuple[dict[str, Route], tuple[str, ...]] | None:
        return _search(self._tree, [_decode(part) for part in path.split(b"/")[1:]], ())

    def _place(self, path: str) -> dict[str, Route]:
        if "{" not in path:
            return self._fixed.setdefault(path.encode(), {})
        node = self._tree
        for part in path.split("/")[1:]:
            node = node.setdefault(_PARAMETER if part.startswith("{") else part, {})
        found: dict[str, Route] = node.setdefault(_ROUTES, {})
        return found


_PARAMETER = object()
_ROUTES = object()


def _search(
    node: dict[Any, Any], parts: list[str], values: tuple[str, ...]
) -> tuple[dict[str, Route], tuple[str, ...]] | None:
    if not parts:
        routes = node.get(_ROUTES)
        return None if routes is None else (routes, values)
    first, rest = parts[0], parts[1:]
    if first in node:
        found = _search(node[first], rest, values)
        if found is not None:
            return found
    if _PARAMETER in node:
        return _search(node[_PARAMETER], rest, (*values, first))
    return None


def _decode(part: bytes) -> str:
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise Invalid("path", "is not valid UTF-8") from None
