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
"""CPU time to match one pattern against all names: thousands of times what is needed."""
_CHUNK = 16


def check_pattern_length(pattern: str) -> None:
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise Invalid(
            "pattern",
            f"has {len(pattern)} characters, at most {MAX_PATTERN_LENGTH} are allowed",
        )


async def matching(pattern: str, names: Sequence[str]) -> list[str]:
    """The names that match as a whole. The matching runs in a thread."""
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
    matched: list[str] = []
    try:
        pc.match_substring_regex("", whole)  # the pattern must be valid even if there are no names
        for start in range(0, len(names), _CHUNK):
            chunk = names[start : start + _CHUNK]
            matches = pc.match_substring_regex(pa.array(chunk), whole).to_pylist()
            matched += itertools.compress(chunk, matches)
            if time.thread_time() > until:
                raise Invalid("pattern", f"takes more than {MAX_SECONDS:g} s: simplify it")
    except pa.ArrowInvalid as error:
        raise Invalid("pattern", f"cannot be used: {error}".partition("\n")[0]) from None
    return matched
