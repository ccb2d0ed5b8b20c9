"""Reads whole queues by position, for Spark and other bulk readers. Moves no cursor."""
