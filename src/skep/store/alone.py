"""What a store says of others if it has no others: one process, one lane, no news."""

from collections.abc import Mapping

from skep.model.news import News


class Alone:
    shared = False
    lane = 0

    async def news_heads(self) -> dict[int, int]:
        return {}

    async def news(self, seen: Mapping[int, int]) -> list[News]:
        return []

    async def take_duty(self, name: str, seconds: float) -> bool:
        return True
