"""Checks staged rows, groups them by partition and encodes them as a chunk."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import ParamSpec, TypeVar

from skep.core.limits import Limits
from skep.core.log.encryption import KeyRing
from skep.core.sink.chunk import Content, Part, PartitionRows, content_of, encode, group
from skep.model.queue import Queue
from skep.model.sink import StagedRows

_FEW_ROWS = 1_000

P = ParamSpec("P")
T = TypeVar("T")


class RowEncoder:
    """Works in a thread if there are many rows: each may belong to another partition."""

    def __init__(self, keys: KeyRing, limits: Limits) -> None:
        self._keys = keys
        self._limits = limits

    async def group(
        self, rows: StagedRows, queue: str | None
    ) -> tuple[list[PartitionRows], Content]:
        """The rows by partition, in the clear, and their content; raises ``Invalid``."""
        return await _run(len(rows), self._group, rows, queue)

    def _group(self, rows: StagedRows, queue: str | None) -> tuple[list[PartitionRows], Content]:
        groups = group(rows, queue, self._limits)
        return groups, content_of(groups)

    async def encode(
        self,
        groups: Iterable[PartitionRows],
        configs: Mapping[str, Queue],
        producer: str | None,
        *,
        rows: int,
    ) -> list[Part]:
        """The parts of a chunk, encrypted where the queue is."""
        return await _run(rows, self._encode, groups, configs, producer)

    def _encode(
        self, groups: Iterable[PartitionRows], configs: Mapping[str, Queue], producer: str | None
    ) -> list[Part]:
        sealed = (each.sealed_for(configs.get(each.queue), self._keys) for each in groups)
        return encode(sealed, producer, self._limits)


async def _run(rows: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    if rows <= _FEW_ROWS:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)
