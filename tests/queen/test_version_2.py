"""The client of the other line, version 2.6, with the calls that both versions share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("queen")

HERE = Path(__file__).parent
CLIENT = Path(sys.prefix) / "queen-2.6"
"""Beside the environment, because two versions of a package do not go into one."""
SHARED = "queues_and_what or messages_are or sent_back or traces_are or the_state_of or groups_are"


def run(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        env={**os.environ, "PYTHONPATH": str(CLIENT), "SKEP_TEST_QUEEN": "2.6.0"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]


def test_what_the_client_does_with_queues_and_streams_is_the_same() -> None:
    run(str(HERE / "test_client.py"), str(HERE / "test_streams.py"))


def test_what_its_administration_still_has_is_the_same() -> None:
    run(str(HERE / "test_admin.py"), "-k", SHARED)
