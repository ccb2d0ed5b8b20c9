"""The oldest dependencies that may be installed have no known hole that concerns a server."""

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FLOORS = {
    "asyncpg": (0, 32),
    "cryptography": (50,),
    "h11": (0, 16),
    "httptools": (0, 9),
    "msgspec": (0, 22),
    "pyarrow": (26,),
    "pyjwt": (2, 15),
    "uvicorn": (0, 54),
}
"""For what a client sends goes through them."""
UNUSED = {"aiohttp": (3, 13, 3), "starlette": (1, 3)}
"""Not needed at present, and not to be taken in an older version."""


def floors() -> dict[str, list[tuple[int, ...]]]:
    """What the project asks for, wherever it does."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = chain(project["dependencies"], *project["optional-dependencies"].values())
    found: dict[str, list[tuple[int, ...]]] = {}
    for each in wanted:
        if matched := re.match(r"([a-z0-9-]+)>=(\d+(?:\.\d+)*)", each):
            found.setdefault(matched[1], []).append(_version(matched[2]))
    return found


def locked() -> dict[str, tuple[int, ...]]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    matches = (re.match(r"([a-z0-9-]+)==(\d+(?:\.\d+)*)", line) for line in lines)
    return {found[1]: _version(found[2]) for found in matches if found}


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


@pytest.mark.parametrize(("name", "least"), FLOORS.items())
def test_a_floor_is_not_below_what_is_safe(name: str, least: tuple[int, ...]) -> None:
    assert floors()[name]
    assert all(floor >= least for floor in floors()[name])


def test_the_lock_is_not_below_the_floors() -> None:
    lock = locked()

    below = [name for name, some in floors().items() if lock[name] < max(some)]

    assert below == []


def test_nothing_unsafe_is_locked() -> None:
    lock = locked()

    unsafe = [
        name for name, least in (FLOORS | UNUSED).items() if name in lock and lock[name] < least
    ]

    assert unsafe == []
