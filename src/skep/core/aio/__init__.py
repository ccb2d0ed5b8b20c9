"""Helpers for asyncio that know nothing of queues."""
