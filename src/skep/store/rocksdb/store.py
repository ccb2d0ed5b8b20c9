"""The store protocol over RocksDB."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rocksdict import WriteBatch

from skep.errors import StoreStalled
from skep.model.change import Change, Commit
from skep.model.queue import Partition
from skep.model.segment import Segment
from skep.store.commit.evaluation import CommitRound, evaluate
from skep.store.protocol import StoreStats
from skep.store.rocksdb import keys
from skep.store.rocksdb.bulk_load import MovingRows
from skep.store.rocksdb.record_codec import encode


class RocksStore(MovingRows):
    """One directory, one process, one lane."""

    async def commit(self, changes: Sequence[Change]) -> Commit:
        try:
            commit, is_written = self._apply(changes)
        except StoreStalled:
            commit, is_written = await self._outlast_stall(partial(self._apply, changes))
        if is_written:
            await self._db.sync()
        return commit

    def _apply(self, changes: Sequence[Change]) -> tuple[Commit, bool]:
        self._db.check()
        round_, outcomes = evaluate(self, changes, lane=self.lane, now=self.clock.now())
        segments, partitions = round_.segments(), round_.partitions()
        batch = self._batch_of(round_, segments, partitions)
        if batch.is_empty():
            return Commit(outcomes, segments), False
        self._write(batch)
        self._remember(partitions)
        return Commit(outcomes, segments), True

    async def stats(self) -> StoreStats:
        owners = (keys.unpack(key[1:9]) for key, _ in self._db.scan(b"d", b"e"))
        letters = sum(1 for queue in owners if queue not in self._removing)
        return StoreStats(self._id, self._db.bytes_on_disk(), letters)

    async def backup(self, path: Path) -> None:
        await asyncio.to_thread(self._db.checkpoint, path)

    async def close(self) -> None:
        self._db.close()

    def _batch_of(
        self, round_: CommitRound, segments: list[Segment], partitions: list[Partition]
    ) -> WriteBatch:
        batch = WriteBatch(raw_mode=True)
        for segment in segments:
            self._put_segment(batch, segment)
        for queue, position in round_.heads.items():
            batch.put(keys.head_key(queue, self.lane), keys.pack(position))
        for partition in partitions:
            self._put_partition(batch, partition)
        for (queue, number, group), state in round_.consumers.items():
            stored = self._groups[queue][group].stored
            batch.put(keys.consumer_key(queue, number, stored), encode(state))
        for number, ids in round_.transactions.items():
            for key, offset in zip(keys.transaction_keys(number, ids), ids.values(), strict=True):
                batch.put(key, keys.pack(offset))
        self._put_letters(batch, round_)
        self._put_traces(batch, round_.traces)
        self._put_entries(batch, round_)
        return batch
