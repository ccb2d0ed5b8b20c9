"""Write docs/reference/openapi.json and the routes in docs/reference/http.md.

``--check`` compares and writes nothing.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from skep.http.openapi import document
from skep.http.routes import all_routes

REFERENCE = Path(__file__).parents[1] / "docs/reference"
PAGE, SPEC = REFERENCE / "http.md", REFERENCE / "openapi.json"
BEGIN, END = "<!-- generated: make http-docs -->\n", "<!-- end -->\n"

Schema: TypeAlias = dict[str, Any]


def specification() -> Schema:
    """The OpenAPI document of a server, without its version, which changes with every release."""
    spec: Schema = json.loads(json.dumps(document(all_routes(), version="")))
    del spec["info"]["version"]
    return spec


def routes(spec: Schema) -> str:
    """Every route by its tag, as Markdown."""
    by_tag: dict[str, list[str]] = {}
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            section = _route(method.upper(), path, operation, spec)
            by_tag.setdefault(operation["tags"][0], []).append(section)
    return "\n".join(f"## {tag}\n\n" + "\n".join(by_tag[tag]) for tag in sorted(by_tag))


def _route(method: str, path: str, operation: Schema, spec: Schema) -> str:
    permission = operation.get("x-permission")
    needs = f"Permission: `{permission}`." if permission else "Permission: none."
    lines = [f"### {method} {path}", "", _text(operation["summary"]), needs, ""]
    lines += _table("parameter", list(_parameters(operation)))
    lines += _table("body field", list(_body_fields(operation, spec)))
    lines += [_response(operation), ""]
    return "\n".join(lines)


def _parameters(operation: Schema) -> Iterator[tuple[str, str, str]]:
    for parameter in operation["parameters"]:
        required = "required" if parameter["required"] else _default(parameter["schema"])
        yield f"{parameter['name']}", f"{parameter['in']}, {_kind(parameter['schema'])}", required


def _body_fields(operation: Schema, spec: Schema) -> Iterator[tuple[str, str, str]]:
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        if "$ref" not in content["schema"]:
            yield "(whole body)", media_type, "required"
            continue
        schema = _resolve(content["schema"], spec)
        for name, field in schema.get("properties", {}).items():
            required = "required" if name in schema.get("required", ()) else _default(field)
            yield name, _kind(field), required


def _response(operation: Schema) -> str:
    (status, done), *_ = operation["responses"].items()
    kinds = [
        f"{media_type} ({_kind(content['schema'])})"
        for media_type, content in done.get("content", {}).items()
    ]
    empty = ", or 204" if "204" in operation["responses"] and status != "204" else ""
    return f"Response: {status}{''.join(f', {kind}' for kind in kinds)}{empty}."


def _table(title: str, rows: list[tuple[str, str, str]]) -> list[str]:
    if not rows:
        return []
    body = [f"| `{name}` | {kind} | {default} |" for name, kind, default in rows]
    return [f"| {title} | type | default |", "|---|---|---|", *body, ""]


def _kind(schema: Schema) -> str:
    if "$ref" in schema:
        return f"`{schema['$ref'].rsplit('/', 1)[-1]}`"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_kind, schema["anyOf"])))
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items') or {})}"
    return str(schema.get("type", "any"))


def _default(schema: Schema) -> str:
    default = schema.get("default")
    return "" if default in (None, "", [], {}) else f"`{json.dumps(default)}`"


def _resolve(schema: Schema, spec: Schema) -> Schema:
    resolved: Schema = spec["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
    return resolved


def _text(summary: str) -> str:
    return " ".join(summary.split())


def generated() -> dict[Path, str]:
    """The content of each generated file."""
    spec = specification()
    page = re.sub(
        f"({re.escape(BEGIN)}).*({re.escape(END)})",
        lambda match: f"{match[1]}\n{routes(spec)}\n{match[2]}",
        PAGE.read_text(),
        flags=re.DOTALL,
    )
    return {PAGE: page, SPEC: _lines(spec)}


def _lines(spec: Schema) -> str:
    """A document with one line per route and per schema, so that a change is readable."""
    paths = {f"{path}": _one_line(methods) for path, methods in spec["paths"].items()}
    components = spec["components"]
    parts = {
        "openapi": _one_line(spec["openapi"]),
        "info": _one_line(spec["info"]),
        "paths": _object(paths),
        "components": _object(
            {
                "schemas": _object(
                    {name: _one_line(schema) for name, schema in components["schemas"].items()}
                ),
                "securitySchemes": _one_line(components["securitySchemes"]),
            }
        ),
    }
    return _object(parts) + "\n"


def _one_line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _object(members: dict[str, str]) -> str:
    return (
        "{\n" + ",\n".join(f"{json.dumps(name)}: {text}" for name, text in members.items()) + "\n}"
    )


def main() -> None:
    for path, text in generated().items():
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path.name} differs from the routes of the server: run make http-docs")


if __name__ == "__main__":
    main()
