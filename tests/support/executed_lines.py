"""How much work something is: the lines of Skep that are executed, which no machine changes."""

import sys
from collections.abc import Awaitable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import skep

_SOURCE = str(Path(skep.__file__).parent)


class Lines:
    """Counts the lines that are executed within a ``with`` block, in this thread."""

    def __init__(self) -> None:
        self.count = 0
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = sys.gettrace()
        sys.settrace(self._enter_frame)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        sys.settrace(self._before)

    def _enter_frame(self, frame: FrameType, event: str, _: object) -> Any:
        return self._count if frame.f_code.co_filename.startswith(_SOURCE) else None

    def _count(self, frame: FrameType, event: str, _: object) -> Any:
        self.count += event == "line"
        return self._count


async def lines_of(work: Awaitable[object]) -> int:
    with Lines() as lines:
        await work
    return lines.count
