"""The backlog of RocksDB's flushes and compactions, which leads to write stalls."""

from collections.abc import Sequence

from rocksdict import Rdict

from skep.store.protocol import Gauge


def gauges_of(families: Sequence[Rdict]) -> list[Gauge]:
    """The gauges of an open database, from its column families, the default one first."""

    def each(name: str) -> list[int]:
        return [family.property_int_value(f"rocksdb.{name}") or 0 for family in families]

    return [
        Gauge(
            "rocksdb_write_stopped",
            "Whether RocksDB has stopped writes: 1 during a write stall.",
            each("is-write-stopped")[0],
        ),
        Gauge(
            "rocksdb_delayed_write_rate",
            "Bytes per second to which RocksDB slows writes down; 0 if it does not.",
            each("actual-delayed-write-rate")[0],
        ),
        Gauge(
            "rocksdb_immutable_memtables",
            "Memtables that wait for a flush; RocksDB stops writes at 2 of a column family.",
            sum(each("num-immutable-mem-table")),
        ),
        Gauge(
            "rocksdb_level0_files",
            "Files in level 0 of the fullest column family; RocksDB stops writes at 36.",
            max(each("num-files-at-level0")),
        ),
        Gauge(
            "rocksdb_pending_compaction_bytes",
            "Bytes that compactions have to rewrite.",
            sum(each("estimate-pending-compaction-bytes")),
        ),
    ]
