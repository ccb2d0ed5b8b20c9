"""Backups over HTTP: below one directory, or not at all."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

import skep
from skep import AsyncClient, Draft
from skep.errors import Conflict, Invalid
from skep.http.app import App
from skep.http.auth.authenticator import AllowAll
from skep.http.routes import all_routes


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    return (tmp_path / "backups").resolve()


@pytest.fixture
def linked(backups: Path, tmp_path: Path) -> None:
    """A link in the directory that leads out of it."""
    backups.mkdir()
    (backups / "link").symlink_to(tmp_path)


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir())


@pytest.fixture
async def client(tmp_path: Path, backups: Path) -> AsyncIterator[AsyncClient]:
    async with skep.open(tmp_path / "data", sweep_interval=None) as broker:
        app = App(broker, all_routes(backup_directory=backups), authenticator=AllowAll())
        async with AsyncClient("http://127.0.0.1", transport=httpx.ASGITransport(app)) as client:
            await client.push("orders", [Draft(b"1")])
            yield client


async def test_a_backup_holds_what_was_pushed(
    client: AsyncClient, backups: Path, tmp_path: Path
) -> None:
    made = await client.backup("2030/today")

    skep.restore(made, tmp_path / "restored")
    assert Path(made) == backups / "2030/today"
    async with skep.open(tmp_path / "restored") as queue:
        delivery = await queue.pop("orders")
    assert delivery is not None


async def test_a_backup_never_replaces_another(client: AsyncClient) -> None:
    await client.backup("today")

    with pytest.raises(Invalid, match="exists already"):
        await client.backup("today")


@pytest.mark.parametrize("path", ["../elsewhere", "/tmp/elsewhere", "a/../..", ".", "a\0b", ""])
async def test_a_backup_stays_in_its_directory(
    client: AsyncClient, tmp_path: Path, path: str
) -> None:
    before = names(tmp_path)

    with pytest.raises(Invalid, match="path"):
        await client.backup(path)

    assert names(tmp_path) == before


async def test_a_name_that_is_too_long_is_refused(client: AsyncClient) -> None:
    with pytest.raises(Invalid, match="name too long") as refused:
        await client.backup("x" * 300)

    assert refused.value.field == "path"


@pytest.mark.usefixtures("linked")
async def test_a_link_does_not_lead_out_of_the_directory(client: AsyncClient) -> None:
    with pytest.raises(Invalid, match="inside the backup directory"):
        await client.backup("link/elsewhere")


async def test_a_server_without_a_directory_makes_no_backup(tmp_path: Path) -> None:
    async with skep.open(tmp_path / "data", sweep_interval=None) as broker:
        app = App(broker, all_routes(), authenticator=AllowAll())
        async with AsyncClient("http://127.0.0.1", transport=httpx.ASGITransport(app)) as client:
            with pytest.raises(Conflict, match="SKEP_BACKUP_DIRECTORY"):
                await client.backup("today")
