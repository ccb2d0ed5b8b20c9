"""What ``skep serve`` takes, and what it refuses before anybody can knock."""

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from skep.cli.serve import without_password
from tests.serving import ServerProcess


def refused(*arguments: str, **settings: str) -> str:
    """What it says when it does not start."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SKEP_")}
    done = subprocess.run(
        [sys.executable, "-m", "skep", "serve", *arguments],
        env=environment | settings,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return done.stderr


def test_it_says_what_to_open_and_what_to_type(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        assert httpx.get(f"{server.url}/docs").status_code == 200
        assert httpx.get(f"{server.url}/openapi.json").json()["openapi"] == "3.1.0"


@pytest.mark.parametrize(
    ("store", "shown"),
    [
        ("data", "data"),
        ("memory://", "memory://"),
        ("rocksdb:///var/lib/skep", "rocksdb:///var/lib/skep"),
        ("postgresql://skep:secret@db:5432/queue?sslpassword=x", "postgresql://skep@db:5432/queue"),
        ("postgres://:secret@db/queue", "postgres://db/queue"),
    ],
)
def test_no_password_is_shown(store: str, shown: str) -> None:
    assert without_password(store) == shown


def test_a_database_that_does_not_answer_stops_it_without_naming_a_password() -> None:
    said = refused("--store", "postgresql://skep:secret@127.0.0.1:1/queue")

    assert "no connection to PostgreSQL" in said
    assert "secret" not in said


def test_what_was_pushed_is_there_after_a_restart(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data")
    with server:
        body = {"items": [{"queue": "q", "payload": 1}]}
        assert httpx.post(f"{server.url}/api/v1/push", json=body).status_code == 201
        assert server.end() == 0

    with server:
        popped = httpx.get(f"{server.url}/api/v1/pop/queue/q").json()

    assert popped["messages"][0]["data"] == 1


def test_a_setting_that_is_misspelt_stops_it() -> None:
    assert "SKEP_PROT" in refused(SKEP_PROT="1")


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"SKEP_PORT": "many"}, "SKEP_PORT"),
        ({"SKEP_ALLOW_ANONYMOUS": "perhaps"}, "SKEP_ALLOW_ANONYMOUS"),
        ({"SKEP_LOG_LEVEL": "loud"}, "log_level"),
        ({"SKEP_STORE": "oracle://x"}, "store"),
        ({"SKEP_JWT_SECRET": "short"}, "jwt_secret"),
        ({"SKEP_ENCRYPTION_KEYS": "/nowhere"}, "encryption_keys"),
        ({"SKEP_API_KEYS": "/nowhere"}, "api_keys"),
        ({"SKEP_TLS_CERTIFICATE": "/nowhere"}, "tls_key"),
    ],
)
def test_a_setting_that_is_wrong_stops_it_by_name(
    tmp_path: Path, settings: dict[str, str], field: str
) -> None:
    said = refused(**{"SKEP_STORE": str(tmp_path / "data"), "SKEP_PORT": "0", **settings})

    assert field in said


def test_an_address_that_others_reach_needs_authentication(tmp_path: Path) -> None:
    said = refused("--host", "0.0.0.0", "--port", "0", "--store", str(tmp_path / "data"))

    assert "allow" in said


def test_a_store_that_is_in_use_names_its_holder(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        said = refused("--port", "0", "--store", str(tmp_path / "data"))

        assert f"{server.pid}" in said


def test_a_port_that_is_taken_says_so(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        port = server.url.rpartition(":")[2]

        said = refused("--port", port, "--store", str(tmp_path / "other"))

    assert port in said


def test_several_processes_need_a_store_that_they_can_share(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "skep", "serve", "--store", str(tmp_path / "s"), "--workers", "2"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "only PostgreSQL" in done.stderr
    assert not (tmp_path / "s").exists()


def test_workers_that_cannot_start_end_the_server() -> None:
    nowhere = "postgresql://127.0.0.1:1/none"

    done = subprocess.run(
        [
            *(sys.executable, "-m", "skep", "serve"),
            *("--store", nowhere, "--port", "0", "--workers", "2"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 3
    assert "no connection to PostgreSQL" in done.stderr
