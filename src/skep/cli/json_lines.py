"""JSON lines, from a file or a stream, as drafts."""

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
    """A payload with its partition and ids. The other fields of ``skep tail --json`` are ignored.

    Any other field is an error: a misspelt transaction id must not be ignored.
    """

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
    """Values for lines that do not set them."""

    partition: str = DEFAULT_PARTITION
    trace_id: UUID | None = None


def to_draft(line: bytes, defaults: Defaults, *, envelope: bool) -> Draft:
    if envelope:
        return _from_envelope(line, defaults)
    return Draft(check_payload(line), defaults.partition, None, defaults.trace_id)


def check_payload(payload: bytes) -> bytes:
    payload = payload.strip()
    if not is_json(payload):
        raise Invalid("payload", """is not JSON; a string needs quotes: '"text"'""")
    return payload


def _from_envelope(line: bytes, defaults: Defaults) -> Draft:
    try:
        decoded = msgspec.json.decode(line, type=Envelope)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid("envelope", f"{error}") from None
    return Draft(
        from_wire("payload", decoded.payload, decoded.encoding),
        decoded.partition or defaults.partition,
        decoded.transaction_id,
        decoded.trace_id or defaults.trace_id,
    )


class Lines:
    """Iterates over the drafts in a file; ``number`` and ``size`` are those of the last line.

    ``total`` is the size of the file in bytes; None for a pipe.
    """

    def __init__(self, file: int, defaults: Defaults, *, envelope: bool) -> None:
        self._file = file
        self._defaults = defaults
        self._envelope = envelope
        self.number = 0
        self.size = 0
        status = os.fstat(file)
        self.total = status.st_size if stat.S_ISREG(status.st_mode) else None

    async def __aiter__(self) -> AsyncIterator[Draft]:
        async for number, line in read_lines(self._file):
            self.number, self.size = number, len(line) + 1
            yield to_draft(line, self._defaults, envelope=self._envelope)


async def read_lines(file: int) -> AsyncIterator[tuple[int, bytes]]:
    """Yield the non-blank lines of an open file with their numbers, as soon as they arrive."""
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
        # A regular file cannot be polled, and needs not be.
        return os.read(file, CHUNK)
    try:
        await readable.wait()
        return os.read(file, CHUNK)
    finally:
        loop.remove_reader(file)
