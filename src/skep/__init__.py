"""A partitioned message queue."""
