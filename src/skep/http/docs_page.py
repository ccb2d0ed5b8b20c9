"""The documentation as a page: made on the server, without a line of script."""

import re
from collections.abc import Iterator
from html import escape
from typing import Any

from skep.wire import paths
from skep.wire.body import encode

STYLE = """
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 18%, transparent);
  --soft: color-mix(in srgb, currentColor 65%, transparent); --accent: #b7791f; }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; margin: 0 auto; max-width: 60rem;
  padding: 2rem 1rem; }
h1 { margin: 0; } h2 { margin: 2.5rem 0 .5rem; }
h2, nav { text-transform: capitalize; } nav a { margin-right: .75rem; white-space: nowrap; }
pre { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .9rem;
  white-space: pre-wrap; }
p.lead { color: var(--soft); margin-top: .25rem; }
details { border: 1px solid var(--line); border-radius: .5rem; margin: .5rem 0; }
summary { cursor: pointer; display: grid; gap: .25rem .75rem; grid-template-columns: 4.5rem 1fr;
  padding: .6rem .9rem; }
summary > span { color: var(--soft); grid-column: 2; }
summary b { color: var(--accent); font: 600 .85rem/1.8 ui-monospace, monospace; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; overflow-wrap: anywhere; }
div.more { border-top: 1px solid var(--line); padding: .25rem .9rem .9rem; }
table { border-collapse: collapse; width: 100%; } h3 { font-size: .95rem; margin: 1rem 0 .25rem; }
td, th { border-bottom: 1px solid var(--line); padding: .3rem .5rem .3rem 0; text-align: left;
  vertical-align: top; width: 35%; } th { font-weight: 600; }
a { color: inherit; }
"""
FIRST = """\
curl localhost:6632/api/v1/push -d '{"items": [{"queue": "orders", "payload": {"n": 1}}]}'
curl 'localhost:6632/api/v1/pop/queue/orders?consumerGroup=billing&batch=10&wait=true'
curl localhost:6632/api/v1/lease/LEASE-ID/settle -d '{"status": "completed"}'  # with its leaseId"""
"""Example commands for a server with default settings."""


def documentation(spec: dict[str, Any]) -> str:
    """An HTML page with every operation of an OpenAPI document."""
    by_tag: dict[str, list[str]] = {}
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            operations = by_tag.setdefault(operation["tags"][0], [])
            operations.append(_operation(spec, path, method.upper(), operation))
    links = " ".join(f'<a href="#{escape(tag)}">{_title(tag)}</a>' for tag in by_tag)
    sections = "".join(
        f'<h2 id="{escape(tag)}">{_title(tag)}</h2>{"".join(operations)}'
        for tag, operations in by_tag.items()
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f'<title>Skep: the HTTP API</title><link rel=stylesheet href="{paths.DOCS_STYLE}">'
        f"<h1>Skep</h1><p class=lead>The HTTP API, version {escape(spec['info']['version'])}. "
        f'For programs: <a href="{paths.OPENAPI}">openapi.json</a>.</p>'
        f"<pre>{escape(FIRST)}</pre><nav>{links}</nav>{sections}</html>"
    )


def _title(tag: str) -> str:
    return escape(tag.replace("-", " "))


def _operation(spec: dict[str, Any], path: str, method: str, operation: dict[str, Any]) -> str:
    permission = operation.get("x-permission")
    needs = f"<p>Needs the permission <code>{escape(permission)}</code>.</p>" if permission else ""
    return (
        f"<details><summary><b>{method}</b><code>{escape(path)}</code>"
        f"<span>{escape(operation['summary'])}</span></summary><div class=more>{needs}"
        f"{_parameters(operation)}{_body(spec, operation)}{_response(spec, operation)}"
        "</div></details>"
    )


def _parameters(operation: dict[str, Any]) -> str:
    rows = [
        _row(each["name"], each["schema"], each["required"], each["in"])
        for each in operation["parameters"]
    ]
    return _table("Parameters", rows)


def _body(spec: dict[str, Any], operation: dict[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {})
    return "".join(_fields(spec, "Body", each["schema"]) for each in content.values())


def _response(spec: dict[str, Any], operation: dict[str, Any]) -> str:
    status = min(operation["responses"])
    content = operation["responses"][status].get("content", {})
    return "".join(_fields(spec, f"Response {status}", each["schema"]) for each in content.values())


def _fields(spec: dict[str, Any], title: str, schema: dict[str, Any]) -> str:
    if schema.get("type") == "array":
        return _fields(spec, f"{title}: a list of", schema["items"])
    if "anyOf" in schema:
        return "".join(_fields(spec, title, each) for each in schema["anyOf"])
    schema = _resolve(spec, schema)
    required = schema.get("required", ())
    rows = [
        _row(name, kind, name in required, "")
        for name, kind in schema.get("properties", {}).items()
    ]
    words = schema.get("description", "").split("\n\n")[0]
    parts = "".join(
        _fields(spec, f"{title} · {name}", part)
        for name, kind in schema.get("properties", {}).items()
        for part in _parts(kind)
    )
    return _table(title, rows, words) + parts


def _parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The structures that a field holds: itself, in a list, or one of several."""
    if "$ref" in schema:
        yield schema
    for each in (*schema.get("anyOf", ()), schema.get("items")):
        if isinstance(each, dict):
            yield from _parts(each)


def _resolve(spec: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    found: dict[str, Any] = spec["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return found


def _table(title: str, rows: list[str], words: str = "") -> str:
    if not rows:
        return ""
    about = f"<p>{_prose(words)}</p>" if words else ""
    return f"<h3>{escape(title)}</h3>{about}<table>{''.join(rows)}</table>"


def _prose(words: str) -> str:
    return re.sub("``(.+?)``", r"<code>\1</code>", escape(words))


def _row(name: str, schema: dict[str, Any], required: bool, where: str) -> str:
    notes = ["required"] if required else []
    if where:
        notes.append(f"in the {where}")
    if schema.get("default") not in (None, {}):
        notes.append(f"default {encode(schema['default']).decode()}")
    return (
        f"<tr><th><code>{escape(name)}</code></th><td><code>{escape(_kind(schema))}</code></td>"
        f"<td>{escape(', '.join(notes))}</td></tr>"
    )


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[1])
    if "anyOf" in schema:
        return " or ".join(map(_kind, schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items') or {})}"
    return str(schema.get("format") or schema.get("type") or "any JSON")
