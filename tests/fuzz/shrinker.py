"""A failing list of steps made short: what is not needed is dropped."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.fuzz.concurrent_operations import ConcurrentOperations
from tests.fuzz.operation import Step

SECONDS = 60.0
"""How long is looked for a shorter list."""


def shrink(
    steps: Sequence[Step], fails: Callable[[Sequence[Step]], bool], seconds: float = SECONDS
) -> Sequence[Step]:
    """The shortest list found of which ``fails`` still holds."""
    deadline = time.monotonic() + seconds
    size = len(steps) // 2
    while size and time.monotonic() < deadline:
        start = 0
        while start < len(steps) and time.monotonic() < deadline:
            shorter = [*steps[:start], *steps[start + size :]]
            if fails(shorter):
                steps = shorter
            else:
                start += size
        size = min(size // 2, len(steps) // 2) or (1 if size > 1 and len(steps) > 1 else 0)
    return _smaller(steps, fails, deadline)


def _smaller(
    steps: Sequence[Step], fails: Callable[[Sequence[Step]], bool], deadline: float
) -> Sequence[Step]:
    """Steps with fewer messages or parts, where that is enough."""
    for index, step in enumerate(steps):
        for candidate in _halves(step):
            if time.monotonic() > deadline:
                return steps
            smaller = [*steps[:index], candidate, *steps[index + 1 :]]
            if fails(smaller):
                steps = smaller
                break
    return steps


def _halves(step: Step) -> list[Step]:
    found: list[Step] = []
    for name in ("drafts", "operations"):
        parts: tuple[Any, ...] = getattr(step.operation, name, ())
        least = 2 if isinstance(step.operation, ConcurrentOperations) else 1
        sizes = sorted({least, 3, len(parts) // 2})
        found += [
            Step(replace(step.operation, **{name: parts[:size]}), step.server)  # type: ignore[type-var]
            for size in sizes
            if least <= size < len(parts)
        ]
    return found
