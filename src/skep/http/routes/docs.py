"""The documentation of the API: OpenAPI document and HTML page."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version

from skep.http.auth.principal import Permission
from skep.http.docs_page import STYLE, documentation
from skep.http.openapi import document
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routing import Handler, Route, no_queue
from skep.wire import paths
from skep.wire.body import encode

_POLICY = (
    b"content-security-policy",
    b"default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'",
)


def docs_routes(routes: Sequence[Route]) -> tuple[Route, ...]:
    """The routes that document ``routes`` and themselves."""
    spec: dict[str, object] = {}
    made = (
        _route(paths.OPENAPI, "The OpenAPI document of this server.", _json(spec)),
        _route(paths.DOCS, "This documentation as an HTML page.", _page(spec), "text/html"),
        _route(
            paths.DOCS_STYLE,
            "The style sheet of the page.",
            _once(lambda: _STYLE),
            "text/css",
        ),
    )
    spec.update(document([*routes, *made], version=version("skep")))
    return made


def _json(spec: dict[str, object]) -> Handler:
    return _once(lambda: HttpResponse(encode(spec)))


def _page(spec: dict[str, object]) -> Handler:
    return _once(
        lambda: HttpResponse(
            documentation(spec).encode(),
            media_type=b"text/html; charset=utf-8",
            headers=(_POLICY,),
        )
    )


_STYLE = HttpResponse(STYLE.encode(), media_type=b"text/css; charset=utf-8")


def _once(make: Callable[[], HttpResponse]) -> Handler:
    """A constant response, created when it is first requested."""
    made = cache(make)

    async def response(request: HttpRequest) -> HttpResponse:
        return made()

    return response


def _route(
    path: str, summary: str, handler: Handler, media_type: str = "application/json"
) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=handler,
        needs=Permission.NONE,
        queues=no_queue,
        summary=summary,
        media_type=media_type,
    )
