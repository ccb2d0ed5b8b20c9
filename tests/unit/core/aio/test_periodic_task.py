"""Work that is done again and again."""

import asyncio
import logging

import pytest

from skep.core.aio import PeriodicTask
from skep.errors import Unavailable


async def test_each_outage_is_complained_of_once(caplog: pytest.LogCaptureFixture) -> None:
    outcomes = iter(["fail", "fail", "fine", "fail", "fail", "fine"])
    over = asyncio.Event()

    async def work() -> None:
        outcome = next(outcomes, None)
        if outcome is None:
            over.set()
        elif outcome == "fail":
            raise Unavailable("nobody there")

    repeating = PeriodicTask(work, "nothing is done", logging.getLogger("skep.test"))
    repeating.start(0)
    await over.wait()
    await repeating.stop()

    assert [each.message for each in caplog.records] == ["nothing is done: error=nobody there"] * 2
    assert not any(each.exc_info for each in caplog.records)
