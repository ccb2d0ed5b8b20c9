"""Clocks that are set forward and back under a server that works: the database's and its own."""

import os
from pathlib import Path

import pytest

from tests.support.faults.postgres_cluster import Cluster
from tests.support.faults.server_under_traffic import server_under_traffic
from tests.support.skewed_database_clock import SKEW, set_clock

pytestmark = pytest.mark.xdist_group("killed")

SHIFTED = Path(__file__).parents[1] / "support/faults/shifted_clock"
JUMPS = (1, 0, -1, 24, 0)
"""Hours by which a clock is ahead, one after the other."""


async def test_clocks_that_are_set_change_no_order(cluster: Cluster, tmp_path: Path) -> None:
    shift = tmp_path / "shift"
    shift.write_text("0")
    own = {"SHIFT": str(shift), "PYTHONPATH": f"{SHIFTED}:{os.environ.get('PYTHONPATH', '')}"}
    async with server_under_traffic(cluster, tmp_path, prepare=SKEW, environment=own) as scene:
        for hours in JUMPS:
            shift.write_text(str(hours * 3600))
            await scene.traffic.until_done(1)
        async with scene.operator() as sql:
            for hours in JUMPS:
                await set_clock(sql, hours_ahead=hours)
                await scene.traffic.until_done(1)
        await scene.traffic.recover()

        # A database whose clock is set forward ends every lease.
        await scene.finish("I7", "I19")
