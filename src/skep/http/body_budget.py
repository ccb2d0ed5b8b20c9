"""Memory for incomplete request bodies, shared by all connections."""


class BodyBudget:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.used = 0

    def add(self, size: int) -> bool:
        """Count bytes; False if the limit is exceeded."""
        self.used += size
        return self.used <= self._limit

    def release(self, size: int) -> None:
        self.used -= size
