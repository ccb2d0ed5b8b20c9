"""Regular expressions for queue names, matched in linear time by RE2, which comes with Arrow.

Python's own engine backtracks: a pattern of ten characters can keep it busy for years.
"""

import asyncio
import itertools
import time
from collections.abc import Sequence

from skep.errors import Invalid

MAX_PATTERN_LENGTH = 255
MAX_SECONDS = 1.0
"""Processor time to match one pattern against all names: thousands of times what is needed."""
_CHUNK = 16


def check_pattern_length(pattern: str) -> None:
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise Invalid(
            "pattern",
            f"has {len(pattern)} characters, at most {MAX_PATTERN_LENGTH} are allowed",
        )


async def matching(pattern: str, names: Sequence[str]) -> list[str]:
    """The names that match as a whole. The event loop goes on meanwhile."""
    check_pattern_length(pattern)
    return await asyncio.to_thread(_matching, pattern, names)


def _matching(pattern: str, names: Sequence[str]) -> list[str]:
    try:
        import pyarrow as pa  # an extra, and slow to load
        import pyarrow.compute as pc
    except ImportError:
        raise Invalid("pattern", "needs Arrow: install skep[server]") from None
    whole = rf"\A(?:{pattern})\z"
    until = time.thread_time() + MAX_SECONDS
    found: list[str] = []
    try:
        pc.match_substring_regex("", whole)  # without any names, too, it must be an expression
        for start in range(0, len(names), _CHUNK):
            some = names[start : start + _CHUNK]
            matches = pc.match_substring_regex(pa.array(some), whole).to_pylist()
            found += itertools.compress(some, matches)
            if time.thread_time() > until:
                raise Invalid("pattern", f"takes more than {MAX_SECONDS:g} s: simplify it")
    except pa.ArrowInvalid as error:
        raise Invalid("pattern", f"cannot be used: {error}".partition("\n")[0]) from None
    return found
