"""What clients did and saw: a line for each invocation and one for each result.

A line is written with one call before the next thing happens, so a process that is killed leaves
behind everything it knew. An operation without a result may or may not have happened.
"""

import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

Result = Literal["ok", "fail", "info"]
"""It happened; it did not; nobody knows."""


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """A message at its place, as a receipt or a delivery shows it; -1 before it has one."""

    partition: str
    offset: int
    value: str
    digest: str
    id: str | None = None

    @property
    def place(self) -> tuple[str, int]:
        return self.partition, self.offset


class Invocation(msgspec.Struct, frozen=True, kw_only=True, tag="invoke", omit_defaults=True):
    """``sent`` is pushed to ``queue``; ``completed`` and ``failed`` are places of ``settles``.

    ``lease_ms`` is how long a pop or an extension asks for. A give-up names its message in
    ``failed``. A seek goes ``to`` the beginning or the end of all partitions of ``settles``.
    ``server`` is who was asked, where there are several. ``expects`` is what the only user of a
    queue must be answered.
    """

    process: str = ""
    number: int = 0
    at: int = 0
    does: Literal[
        "push",
        "pop",
        "settle",
        "extend",
        "transact",
        "give_up",
        "seek",
        "alone",
        "audit",
        "letters",
        "counts",
    ]
    client: str = ""
    queue: str = ""
    group: str = ""
    lease: str = ""
    lease_ms: int = 0
    key: str = ""
    sent: list[Seen] = []
    settles: str = ""
    completed: list[tuple[str, int]] = []
    failed: list[tuple[str, int]] = []
    to: str = ""
    server: str = ""
    expects: str = ""


class Return(msgspec.Struct, frozen=True, kw_only=True, tag="return", omit_defaults=True):
    """``seen`` are receipts, or what was delivered under ``lease``; ``dead`` was given up.

    ``counts`` are a queue in numbers, and ``got`` is the answer to who expects something.
    """

    process: str = ""
    number: int = 0
    at: int = 0
    result: Result = "ok"
    lease: str = ""
    seen: list[Seen] = []
    dead: list[tuple[str, int]] = []
    counts: dict[str, int] = {}
    got: str = ""
    error: str = ""


class Operation(msgspec.Struct, frozen=True):
    asked: Invocation
    answer: Return | None = None

    @property
    def result(self) -> Result:
        return self.answer.result if self.answer else "info"

    @property
    def is_ok(self) -> bool:
        return self.result == "ok"

    @property
    def seen(self) -> list[Seen]:
        return self.answer.seen if self.answer else []

    @property
    def ended_at(self) -> int:
        return self.answer.at if self.answer else 1 << 63


class Recorder:
    """Writes the history of one process; ``path`` is a new file."""

    def __init__(self, path: Path, process: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._process = process
        self._number = 0

    def invoke(self, template: Invocation) -> Invocation:
        self._number += 1
        asked = msgspec.structs.replace(
            template, process=self._process, number=self._number, at=time.monotonic_ns()
        )
        self._write(asked)
        return asked

    def answer(self, asked: Invocation, answer: Return) -> Operation:
        answer = msgspec.structs.replace(
            answer, process=asked.process, number=asked.number, at=time.monotonic_ns()
        )
        self._write(answer)
        return Operation(asked, answer)

    def _write(self, line: msgspec.Struct) -> None:
        os.write(self._file, msgspec.json.encode(line) + b"\n")


def read(paths: Iterable[Path]) -> list[Operation]:
    """The operations of several processes, in the order in which they were invoked."""
    asked: dict[tuple[str, int], Invocation] = {}
    answers: dict[tuple[str, int], Return] = {}
    for path in paths:
        for line in _whole_lines(path):
            event = _decoder.decode(line)
            if isinstance(event, Invocation):
                asked[event.process, event.number] = event
            else:
                answers[event.process, event.number] = event
    operations = [Operation(event, answers.get(name)) for name, event in asked.items()]
    return sorted(operations, key=lambda operation: operation.asked.at)


def payload_of(value: str) -> bytes:
    """The same for the same value, in any process; not two of the same length in a row."""
    filler = hashlib.sha256(value.encode()).digest()
    return value.encode() + b"|" + filler * (filler[0] % 8) + filler[: filler[1] % 32]


def value_of(payload: bytes) -> str:
    return payload.partition(b"|")[0].decode(errors="replace")


def digest_of(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()[:16]


def sending(partition: str, values: Sequence[str], *, with_ids: bool = False) -> list[Seen]:
    return [
        Seen(partition, -1, value, digest_of(payload_of(value)), value if with_ids else None)
        for value in values
    ]


def _whole_lines(path: Path) -> list[bytes]:
    """What follows the last newline was being written when the process was killed."""
    return path.read_bytes().split(b"\n")[:-1]


_decoder = msgspec.json.Decoder(Invocation | Return)
