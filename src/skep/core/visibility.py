"""Which queues a caller may see."""

from collections.abc import Callable
from typing import TypeAlias

QueueFilter: TypeAlias = Callable[[str], bool]
"""Whether a queue, by its name, is visible to the caller."""
