"""A real server asks who it is, and does not start where it should not."""

import asyncio
from pathlib import Path

import httpx
import pytest

from skep.cli.commands.serve import run
from skep.errors import Invalid
from skep.http.auth.api_key import create_key
from skep.http.auth.api_key_file import add_key
from skep.settings import Settings
from tests.support.server_process import ServerProcess

PUSH = {"items": [{"queue": "orders", "payload": 1}]}


def test_a_server_with_keys_is_open_to_who_has_one(tmp_path: Path) -> None:
    key = create_key(["producer"])
    add_key(tmp_path / "keys.json", key.entry)

    with ServerProcess("memory://", "--api-keys", str(tmp_path / "keys.json")) as server:
        push = f"{server.url}/api/v1/push"
        without = httpx.post(push, json=PUSH)
        with_key = httpx.post(push, json=PUSH, headers={"x-api-key": key.text})
        pop = httpx.get(f"{server.url}/api/v1/pop/queue/orders", headers={"x-api-key": key.text})

    assert [each.status_code for each in (without, with_key, pop)] == [401, 201, 403]


def test_a_server_that_anybody_could_use_opens_neither_door_nor_store(tmp_path: Path) -> None:
    settings = Settings(host="0.0.0.0", store=str(tmp_path / "data"))

    with pytest.raises(Invalid, match=r"^host: '0\.0\.0\.0' can be reached by other machines"):
        asyncio.run(run(settings))

    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_told_nonsense_opens_neither_door_nor_store(tmp_path: Path) -> None:
    settings = Settings(jwt_secret="short", store=str(tmp_path / "data"))

    with pytest.raises(Invalid, match=r"^jwt_secret: "):
        asyncio.run(run(settings))

    assert list(tmp_path.iterdir()) == []
