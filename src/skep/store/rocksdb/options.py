"""How RocksDB is tuned, each value with its reason."""

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    DBRecoveryMode,
    Options,
)

_MB = 1 << 20


def database_options(*, create: bool) -> Options:
    options = _column_family(write_buffer=8 * _MB)
    options.create_if_missing(create)
    options.create_missing_column_families(create)
    # A torn tail is normal after a crash and is cut off; a bad record in the middle is
    # damage, and the default mode would silently drop everything after it.
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    options.set_paranoid_checks(True)
    # Two cores: one background thread beside the one that serves.
    options.set_max_background_jobs(2)
    # All memtables together. With the block cache this bounds what RocksDB takes.
    options.set_db_write_buffer_size(24 * _MB)
    # Bounds the time to open after a crash: the log is read at a few hundred MB/s.
    options.set_max_total_wal_size(128 * _MB)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(_MB)
    options.set_stats_dump_period_sec(0)
    return options


def segment_options() -> Options:
    return _column_family(write_buffer=16 * _MB)


def _column_family(*, write_buffer: int) -> Options:
    options = Options(raw_mode=True)
    options.set_write_buffer_size(write_buffer)
    # Payloads are mostly JSON: lz4 while data is young, zstd for what has settled.
    options.set_compression_type(DBCompressionType.lz4())
    options.set_bottommost_compression_type(DBCompressionType.zstd())
    options.set_level_compaction_dynamic_level_bytes(True)
    # Where RocksDB would slow writes down it sleeps in the writing thread, which is the thread of
    # the event loop. So it goes on at full speed until it stops writes; those are refused.
    options.set_level_zero_slowdown_writes_trigger(_LEVEL_0_FILES)
    options.set_level_zero_stop_writes_trigger(_LEVEL_0_FILES)
    options.set_soft_pending_compaction_bytes_limit(_PENDING_BYTES)
    options.set_hard_pending_compaction_bytes_limit(_PENDING_BYTES)
    table = BlockBasedOptions()
    table.set_block_cache(_CACHE)
    table.set_block_size(16 * 1024)
    # Deduplication asks mostly for ids that are not there.
    table.set_bloom_filter(10, False)
    options.set_block_based_table_factory(table)
    return options


_CACHE = Cache(8 * _MB)
_LEVEL_0_FILES = 36
_PENDING_BYTES = 256 << 30
"""Where RocksDB stops writes by default."""
