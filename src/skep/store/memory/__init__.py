"""A store in memory: the reference of the store suite, and what users' tests run on."""

from skep.store.memory.store import MemoryStore

__all__ = ["MemoryStore"]
