"""What ``skep serve`` takes, and what it refuses before anybody can knock."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from skep.cli.commands.serve import without_password
from tests.support.server_process import ServerProcess


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


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_payload_limit_above_what_may_wait_for_the_store_stops_it(
    tmp_path: Path, workers: str
) -> None:
    store = tmp_path / "data" if workers == "1" else "postgresql://skep@127.0.0.1:1/queue"

    said = refused("--store", str(store), "--workers", workers, SKEP_PAYLOAD_BYTES="67108865")

    assert "SKEP_PAYLOAD_BYTES" in said
    assert "pending_bytes" in said
    assert "67108864" in said
    assert not (tmp_path / "data").exists()


def test_the_limit_of_open_files_is_raised_as_far_as_it_may_be(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 512), hard))
    try:
        server = ServerProcess(tmp_path / "data")
        server.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    found = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    server.end(signal.SIGKILL)
    assert found == (hard, hard)


@pytest.mark.parametrize(("most", "is_warned"), [(15_999, True), (16_000, False)])
def test_a_low_limit_of_open_files_is_warned_of(most: int, is_warned: bool) -> None:
    code = f"""
import logging, resource
from skep.cli import open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (100, {most}))
logging.basicConfig()
open_files.raise_limit()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == ({most}, {most})
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )

    assert ("limit=15999" in done.stderr) == is_warned


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


KEY = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "content",
    [KEY, f"{KEY}:k1", f"k1 {KEY}", f"k1: {KEY}", f"k1:{KEY}0", f"{KEY}:{KEY}", f"k1:{KEY}\n{KEY}"],
)
def test_a_broken_file_of_encryption_keys_is_not_shown(tmp_path: Path, content: str) -> None:
    keys = tmp_path / "keys"
    keys.touch(mode=0o600)
    keys.write_text(content)

    said = refused(SKEP_STORE="memory://", SKEP_PORT="0", SKEP_ENCRYPTION_KEYS=str(keys))

    assert "line " in said
    assert KEY[:8] not in said


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o602])
def test_a_file_of_encryption_keys_for_every_user_is_refused(tmp_path: Path, mode: int) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"k1:{KEY}")
    keys.chmod(mode)

    said = refused(SKEP_STORE="memory://", SKEP_PORT="0", SKEP_ENCRYPTION_KEYS=str(keys))

    assert "chmod 600" in said


def test_a_tls_key_for_every_user_is_refused(tmp_path: Path) -> None:
    key = tmp_path / "server.key"
    key.touch()
    key.chmod(0o644)

    said = refused(SKEP_STORE="memory://", SKEP_TLS_CERTIFICATE="server.pem", SKEP_TLS_KEY=str(key))

    assert "chmod 600" in said


def test_api_keys_that_every_user_may_change_are_refused(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text("[]")
    keys.chmod(0o666)

    assert "chmod 600" in refused(SKEP_STORE="memory://", SKEP_API_KEYS=str(keys))


def test_a_password_with_a_slash_is_not_shown() -> None:
    said = refused(SKEP_STORE="postgresql://skep:s3cret/word@127.0.0.1/db", SKEP_PORT="0")

    assert "%2F" in said
    assert "s3cret" not in said
