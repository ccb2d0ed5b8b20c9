"""Output of commands: tables, or JSON.

Names and payloads are untrusted: control characters are printed as escape sequences.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

Step: TypeAlias = Callable[[int], None]

PIPE_WIDTH = 10_000
"""Columns if the output is not a terminal: lines are not wrapped there."""


def print_document(value: object) -> None:
    """Print one JSON document."""
    _write(msgspec.json.format(to_json(value), indent=2))


def print_line(value: object) -> None:
    """Print one line of JSON, and flush it."""
    _write(to_json(value))
    sys.stdout.flush()


def print_text(text: str) -> None:
    _write(text.encode(errors="backslashreplace"))


def print_done(document: object, text: str, *, as_json: bool) -> None:
    """Print the result of a command, as JSON or as text."""
    if as_json:
        print_document(document)
    else:
        print_text(text)


def print_one(document: object, fields: Mapping[str, object], *, as_json: bool) -> None:
    """Print one object, as JSON or as a list of fields."""
    if as_json:
        print_document(document)
    else:
        print_fields(fields)


def print_list(
    document: object,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    as_json: bool,
    empty: str = "no results",
) -> None:
    """Print several objects, as JSON or as a table; print ``empty`` on stderr if there are none."""
    if as_json:
        print_document(document)
    elif rows:
        print_table(columns, rows)
    else:
        note(empty)


def note(text: str) -> None:
    """Print a note on stderr."""
    sys.stderr.write(f"{''.join(map(_visible, text))}\n")


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, header: bool = True
) -> None:
    """Print a table; the last column is wrapped."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=header)
    for column in columns:
        table.add_column(column, no_wrap=column != columns[-1], overflow="fold")
    for row in rows:
        table.add_row(*(Text(to_cell(value)) for value in row))
    _console().print(table)
    sys.stdout.flush()


def print_fields(fields: Mapping[str, object]) -> None:
    """Print names and values, one pair per line."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, value in fields.items():
        table.add_row(Text(name), Text(to_cell(value)))
    _console().print(table)


def to_json(value: object) -> bytes:
    return msgspec.json.encode(_to_camel(value))


def to_cell(value: object) -> str:
    """Return a value as one line of text without control characters."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    return "".join(map(_visible, str(value)))


@contextmanager
def progress(description: str, total: int | None, *, in_bytes: bool = False) -> Iterator[Step]:
    """Show a progress bar on a terminal; the yielded function advances it."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn() if in_bytes else MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
    with bar:
        task = bar.add_task(description, total=total)
        yield lambda count: bar.advance(task, count)


def _console() -> Console:
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(file=sys.stdout, width=width, highlight=False, soft_wrap=False)


def _write(content: bytes) -> None:
    sys.stdout.write(content.decode() + "\n")


def _visible(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode()


def _to_camel(value: object) -> Any:
    """Return a value with field names in camel case."""
    if isinstance(value, msgspec.Struct):
        return {name: _to_camel(field) for name, field in fields_of(value).items()}
    if isinstance(value, list | tuple):
        return [_to_camel(item) for item in value]
    if isinstance(value, dict):
        return {name: _to_camel(item) for name, item in value.items()}
    return value


def fields_of(struct: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a struct, with names in camel case."""
    return {_camel(name): getattr(struct, name) for name in struct.__struct_fields__}


def rows_json(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of a table, with column names in camel case."""
    return [{_camel(name): value for name, value in row.items()} for row in rows]


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)
