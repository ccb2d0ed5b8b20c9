"""Routes, and finding the one that a request means."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

from skep.errors import Forbidden, Invalid
from skep.http.auth.principal import Permission
from skep.http.codec import MAX_REMEMBERED
from skep.http.limits import MB
from skep.http.request import HttpRequest, HttpResponse

Handler: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]
Queues: TypeAlias = Callable[[HttpRequest], Iterable[str] | Awaitable[Iterable[str]]]


def no_queue(request: HttpRequest) -> Iterable[str]:
    """For a route that is about no queue in particular, and shows only what the caller may see."""
    return ()


def every_queue(request: HttpRequest) -> Iterable[str]:
    """For a route that touches queues which nobody names: not for who is for some only."""
    raise Forbidden("this touches every queue, and you are for some of them only")


def named_queue(request: HttpRequest) -> Iterable[str]:
    """For a route with the queue in its path."""
    return (request.params["queue"],)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One thing that the door can do, and all that must be known of it before it is done."""

    method: str
    path: str
    handler: Handler
    needs: Permission
    queues: Queues
    """The queues that a call is about: the caller must be allowed each of them."""
    summary: str
    """One sentence for the documentation."""
    body: Any = None
    body_bytes: int = MB
    """How large a body may be, if the server has no lower limit. A body with lists of structures
    may be as large as it gets, because these are decoded one by one."""
    takes: str | None = None
    """The media type of a body that the handler gets as it is, instead of a decoded one."""
    query: Any = None
    response: Any = None
    """What is answered; a tuple of what may be, if it is not always the same."""
    status: int = 200
    may_be_empty: bool = False
    """Whether 204 is an answer too."""
    media_type: str = "application/json"
    fields: Mapping[str, str] = field(default_factory=dict, compare=False)
    """What the core calls otherwise than the body and the query do: its word, and theirs."""
    names: tuple[str, ...] = field(init=False)
    """The parameters in the path, in order."""

    def __post_init__(self) -> None:
        parts = (part for part in self.path.split("/") if part.startswith("{"))
        object.__setattr__(self, "names", tuple(part[1:-1] for part in parts))
        self._check()

    def _check(self) -> None:
        """A route that forgot who may use it would be open to all: it does not even exist."""
        if not isinstance(self.needs, Permission):
            raise TypeError(f"{self.method} {self.path} does not say what it needs")
        if not callable(self.queues):
            raise TypeError(f"{self.method} {self.path} does not say which queues it is about")
        if "queue" in self.names and self.queues is no_queue:
            raise TypeError(f"{self.method} {self.path} names a queue and says it is about none")


get = partial(Route, method="GET")
post = partial(Route, method="POST")
delete = partial(Route, method="DELETE")


class Router:
    """Finds routes by method and path. Segments are compared decoded, so that a name may contain
    what a path may not; a fixed segment wins over a parameter."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = routes
        self._fixed: dict[bytes, dict[str, Route]] = {}
        self._tree: dict[Any, Any] = {}
        # Who pops asks for the same path again and again.
        self._found = lru_cache(maxsize=4096)(self._look)
        for route in routes:
            by_method = self._place(route.path)
            if route.method in by_method:
                raise ValueError(f"{route.method} {route.path} is there twice")
            by_method[route.method] = route

    def find(self, path: bytes) -> tuple[dict[str, Route], tuple[str, ...]] | None:
        """The routes at a raw path by method, and the values of its parameters in order."""
        fixed = self._fixed.get(path)
        if fixed is not None:
            return fixed, ()
        return self._found(path) if len(path) <= MAX_REMEMBERED else self._look(path)

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
