"""Stages chunks of rows, unseen until their version is committed."""

from collections.abc import Iterable

from skep.core.aio import Backoff
from skep.core.cluster.peer_sync import PeerSync
from skep.core.sink import manifest
from skep.core.sink.manifest import SinkVersion
from skep.core.sink.row_encoder import RowEncoder
from skep.core.sink.staged_bytes import StagedBytes
from skep.core.sink.staging_area import StagingArea
from skep.core.state.registry import Registry
from skep.model.change import QueueVersion
from skep.model.queue import Queue
from skep.model.sink import StagedRows


class Stager:
    def __init__(
        self,
        registry: Registry,
        peer_sync: PeerSync,
        area: StagingArea,
        staged_bytes: StagedBytes,
        encoder: RowEncoder,
    ) -> None:
        self._registry = registry
        self._peer_sync = peer_sync
        self._area = area
        self._staged_bytes = staged_bytes
        self._encoder = encoder

    async def stage(
        self,
        version: SinkVersion,
        key: str,
        rows: StagedRows,
        *,
        queue: str | None,
        producer: str | None,
        owner: str | None,
    ) -> None:
        """Store a chunk under its key, in place of the one that was staged before."""
        groups, content = await self._encoder.group(rows, queue)
        await self._staged_bytes.add(key, sum(len(payload or b"") for payload in rows.payloads))
        backoff = Backoff("the same chunk")
        while True:
            configs, versions = await self._configs({each.queue for each in groups})
            parts = await self._encoder.encode(groups, configs, producer, rows=len(rows))
            updates = manifest.put_chunk(key, await self._area.find(key), parts, content)
            updates += await self._area.claim(version.app, owner)
            if await self._area.write(updates, versions):
                return
            await backoff.pause()

    async def _configs(
        self, names: Iterable[str]
    ) -> tuple[dict[str, Queue], tuple[QueueVersion, ...]]:
        """The configurations of the named queues that exist, and their versions."""
        queues = self._registry.queues
        if any(name not in queues for name in names):
            await self._peer_sync.complete()
        existing = [queues[name] for name in names if name in queues]
        configs = {state.config.name: state.config for state in existing}
        return configs, tuple(state.versions[0] for state in existing)
