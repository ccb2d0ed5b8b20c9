"""One commit on PostgreSQL: what it must read, the read with its locks, the write, a fast path."""
