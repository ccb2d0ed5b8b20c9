"""JSON lines, from a file or as they come in, and the drafts that they stand for."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import msgspec

from skep.errors import Invalid
from skep.model.message import Draft
from skep.model.name import DEFAULT_PARTITION
from skep.wire.body import Body
from skep.wire.payload import Encoding, from_wire, is_json

CHUNK = 1 << 18


class Envelope(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A payload and where it goes. What else ``skep tail --json`` prints may be there; any other
    name is an error, because a transaction id that is misspelt would be none."""

    payload: msgspec.Raw
    encoding: Encoding = "json"
    partition: str | None = None
    transaction_id: str | None = None
    trace_id: UUID | None = None
    id: UUID | None = None
    queue: str | None = None
    offset: int | None = None
    attempt: int | None = None
    producer: str | None = None
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a line that says nothing about it gets."""

    partition: str = DEFAULT_PARTITION
    trace_id: UUID | None = None


def to_draft(line: bytes, defaults: Defaults, *, envelope: bool) -> Draft:
    if envelope:
        return _from_envelope(line, defaults)
    return Draft(check_payload(line), defaults.partition, None, defaults.trace_id)


def check_payload(payload: bytes) -> bytes:
    payload = payload.strip()
    if not is_json(payload):
        raise Invalid("payload", """is not JSON; a text needs its quotes: '"text"'""")
    return payload


def _from_envelope(line: bytes, defaults: Defaults) -> Draft:
    try:
        found = msgspec.json.decode(line, type=Envelope)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid("envelope", f"{error}") from None
    return Draft(
        from_wire("payload", found.payload, found.encoding),
        found.partition or defaults.partition,
        found.transaction_id,
        found.trace_id or defaults.trace_id,
    )


class Lines:
    """The drafts in a file; ``number`` is the line of the last one, ``size`` its bytes.

    ``total`` is how many bytes there are to come, if that is known: of a pipe it is not.
    """

    def __init__(self, file: int, defaults: Defaults, *, envelope: bool) -> None:
        self._file = file
        self._defaults = defaults
        self._envelope = envelope
        self.number = 0
        self.size = 0
        about = os.fstat(file)
        self.total = about.st_size if stat.S_ISREG(about.st_mode) else None

    async def __aiter__(self) -> AsyncIterator[Draft]:
        async for number, line in read_lines(self._file):
            self.number, self.size = number, len(line) + 1
            yield to_draft(line, self._defaults, envelope=self._envelope)


async def read_lines(file: int) -> AsyncIterator[tuple[int, bytes]]:
    """The lines of an open file that are not blank, with their numbers, as soon as they come."""
    number, rest = 0, b""
    while chunk := await _read(file):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            number += 1
            if line.strip():
                yield number, line
    if rest.strip():
        yield number + 1, rest


async def _read(file: int) -> bytes:
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(file, readable.set)
    except PermissionError:
        # Not something that one can wait for: a plain file.
        return os.read(file, CHUNK)
    try:
        await readable.wait()
        return os.read(file, CHUNK)
    finally:
        loop.remove_reader(file)
