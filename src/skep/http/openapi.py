"""The OpenAPI document, generated from the routes and the types of their bodies."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from skep.http.auth.principal import Permission
from skep.http.routing import Route
from skep.wire import paths

_REF = "#/components/schemas/{name}"
_STATUSES = {
    "400": "The request can never succeed as written; `field` names the wrong part.",
    "401": "Missing or invalid token or API key.",
    "403": "The token or API key does not grant this.",
    "404": "Something that the request names does not exist.",
    "409": "Rejected because of the current state; nothing was written.",
    "413": "The body is too large.",
    "429": "The queue is full, or the server is overloaded; nothing was written. Retry later.",
    "503": "The server is unavailable; nothing was written.",
    "504": "The outcome is unknown: retry only with the same ids.",
}


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why the request failed. Further fields depend on ``type``."""

    error: str
    type: str | None = None
    status: int | None = None
    field: str | None = None
    reason: str | None = None
    code: str | None = None


def document(routes: Sequence[Route], *, version: str) -> dict[str, Any]:
    """The whole document."""
    kinds = [Problem, *_kinds(routes)]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    by_kind = dict(zip(map(_key, kinds), schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Skep",
            "version": version,
            "description": "A partitioned message queue.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
    }


def _kinds(routes: Iterable[Route]) -> list[Any]:
    by_key = {
        _key(kind): kind
        for route in routes
        for kind in (route.body, *_alternatives(route))
        if kind is not None
    }
    return list(by_key.values())


def _alternatives(route: Route) -> tuple[Any, ...]:
    return route.response if isinstance(route.response, tuple) else (route.response,)


def _key(kind: Any) -> str:
    return repr(kind)


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": _operation_id(route),
        "tags": [_tag(route)],
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": _responses(route, schemas),
    }
    if route.body is not None:
        content = {"application/json": {"schema": schemas[_key(route.body)]}}
        operation["requestBody"] = {"content": content, "required": _is_required(route.body)}
    elif route.takes is not None:
        whole = {"schema": {"type": "string", "format": "binary"}}
        operation["requestBody"] = {"content": {route.takes: whole}, "required": True}
    if route.needs is not Permission.NONE:
        operation["security"] = [{"token": []}, {"key": []}]
        operation["x-permission"] = route.needs.value
    return operation


def _responses(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    done: dict[str, Any] = {"description": route.summary}
    if route.response is not None:
        kinds = [schemas[_key(kind)] for kind in _alternatives(route)]
        schema = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        done["content"] = {route.media_type: {"schema": schema}}
    responses = {str(route.status): done}
    if route.may_be_empty:
        responses["204"] = {"description": "No content."}
    problem = {"application/json": {"schema": schemas[_key(Problem)]}}
    responses |= {
        status: {"description": words, "content": problem} for status, words in _STATUSES.items()
    }
    return responses


def _path_parameters(route: Route) -> Iterator[dict[str, Any]]:
    for name in route.names:
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1},
        }


def _query_parameters(route: Route) -> Iterator[dict[str, Any]]:
    if route.query is None:
        return
    schema = msgspec.json.schema(route.query)["$defs"][route.query.__name__]
    required = schema.get("required", ())
    for name, kind in schema["properties"].items():
        yield {"name": name, "in": "query", "required": name in required, "schema": kind}


def _is_required(kind: Any) -> bool:
    return any(field.required for field in msgspec.structs.fields(kind))


def _operation_id(route: Route) -> str:
    words = [part.strip("{}") for part in route.path.split("/") if part not in ("", "api", "v1")]
    return "_".join([route.method.lower(), *words]).replace("-", "_")


def _tag(route: Route) -> str:
    parts = [part for part in route.path.split("/") if part not in ("", "api", "v1")]
    return parts[0] if route.path.startswith((paths.API, paths.STREAMS)) else "server"
