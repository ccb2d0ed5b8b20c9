"""What commands print: tables for people, JSON for programs.

Names and payloads come from anybody: what could move a terminal's cursor is shown as an escape.
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
"""Columns of what is not a terminal: a line is never broken there."""


def print_document(value: object) -> None:
    """One JSON document."""
    _write(msgspec.json.format(to_json(value), indent=2))


def print_line(value: object) -> None:
    """One line of JSON, seen at once by who reads the stream."""
    _write(to_json(value))
    sys.stdout.flush()


def print_text(text: str) -> None:
    _write(text.encode(errors="backslashreplace"))


def print_done(document: object, words: str, *, as_json: bool) -> None:
    """What a command has done: as JSON, or in words."""
    if as_json:
        print_document(document)
    else:
        print_text(words)


def print_one(document: object, fields: Mapping[str, object], *, as_json: bool) -> None:
    """One thing: as JSON, or its names and values one below the other."""
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
    empty: str = "there is nothing",
) -> None:
    """Many things: as JSON, or in a table. That there are none is said beside the output."""
    if as_json:
        print_document(document)
    elif rows:
        print_table(columns, rows)
    else:
        note(empty)


def note(words: str) -> None:
    """Say something to the person at the terminal, not to who reads the output."""
    sys.stderr.write(f"{''.join(map(_visible, words))}\n")


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], *, header: bool = True
) -> None:
    """A table whose last column takes the room that is left."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=header)
    for column in columns:
        table.add_column(column, no_wrap=column != columns[-1], overflow="fold")
    for row in rows:
        table.add_row(*(Text(to_cell(value)) for value in row))
    _console().print(table)
    sys.stdout.flush()


def print_fields(fields: Mapping[str, object]) -> None:
    """Names and values, one below the other."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, value in fields.items():
        table.add_row(Text(name), Text(to_cell(value)))
    _console().print(table)


def to_json(value: object) -> bytes:
    return msgspec.json.encode(_to_camel(value))


def to_cell(value: object) -> str:
    """A value as one line of text that does nothing but stand there."""
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
def progress(words: str, total: int | None, *, in_bytes: bool = False) -> Iterator[Step]:
    """A bar on a terminal; what is given back counts so many more."""
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
        task = bar.add_task(words, total=total)
        yield lambda count: bar.advance(task, count)


def _console() -> Console:
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(file=sys.stdout, width=width, highlight=False, soft_wrap=False)


def _write(content: bytes) -> None:
    sys.stdout.write(content.decode() + "\n")


def _visible(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode()


def _to_camel(value: object) -> Any:
    """Our nouns with the names that JSON has for them."""
    if isinstance(value, msgspec.Struct):
        return {name: _to_camel(each) for name, each in fields_of(value).items()}
    if isinstance(value, list | tuple):
        return [_to_camel(each) for each in value]
    if isinstance(value, dict):
        return {name: _to_camel(each) for name, each in value.items()}
    return value


def fields_of(noun: msgspec.Struct) -> dict[str, Any]:
    """The fields of a noun, with the names that JSON has for them."""
    return {_camel(name): getattr(noun, name) for name in noun.__struct_fields__}


def shown_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a table, with the names that JSON has for its columns."""
    return [{_camel(name): value for name, value in row.items()} for row in rows]


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)
