"""Queues, groups, messages and so on: the same methods as in the broker."""
