"""SQL lives in ``queries/*.sql``; Python asks for a statement by name."""

import re
from collections.abc import Iterator
from importlib import resources

_HEADER = re.compile(r"^-- name: ([a-z_]+)\n", re.MULTILINE)


def parse(text: str) -> Iterator[tuple[str, str]]:
    """Yield ``(name, statement)`` for each ``-- name:`` header of a file."""
    _preamble, *parts = _HEADER.split(text)
    for name, statement in zip(parts[::2], parts[1::2], strict=True):
        yield name, statement.strip()


def load(package: str) -> dict[str, str]:
    statements: dict[str, str] = {}
    for file in sorted(resources.files(package).iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".sql"):
            continue
        for name, statement in parse(file.read_text("utf-8")):
            if name in statements:
                raise ValueError(f"{file.name}: statement {name!r} is defined twice")
            statements[name] = statement
    return statements


QUERIES = load("skep.store.postgres.queries")
