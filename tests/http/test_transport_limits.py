"""What many clients together may take of a server, over raw connections."""

import asyncio
import logging
import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from skep import Broker
from skep.http.auth.api_key import create_key
from skep.http.auth.api_key_file import add_key, revoke_key
from tests.support.http.raw_connection import ITEM, Raw, exchange, get, push, request, statuses
from tests.support.in_process_server import ReadyServer
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.xdist_group("transport")

CLOSE = b"Connection: close"
MB = 1_000_000


@pytest.fixture
def start() -> Iterator[Callable[..., ServerProcess]]:
    """Starts a server with settings, and ends it."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(ServerProcess("memory://", **settings))


def answers(server: ServerProcess) -> bool:
    return statuses(exchange(server, get(b"/health/live", CLOSE))) == [200]


def unfinished(server: ServerProcess) -> float:
    """Bytes of unfinished bodies, as the metrics have it."""
    metrics = httpx.get(f"{server.url}/metrics/prometheus").text
    found = re.search(r"^skep_http_unfinished_body_bytes (.+)$", metrics, re.MULTILINE)
    assert found
    return float(found[1])


def test_clients_that_do_not_read_are_disconnected(start: Callable[..., ServerProcess]) -> None:
    server = start(SKEP_WRITE_SECONDS="1", SKEP_CONNECTIONS="50")
    with ExitStack() as stack:
        for _ in range(55):
            raw = stack.enter_context(Raw(server, receive_buffer=4096))
            raw.send(get(b"/openapi.json") * 60)

        while not answers(server):
            pass


def test_a_client_that_reads_slowly_gets_its_whole_response(
    start: Callable[..., ServerProcess],
) -> None:
    server = start(SKEP_WRITE_SECONDS="3")
    size = len(httpx.get(f"{server.url}/openapi.json").content)
    seen = b""
    with Raw(server, receive_buffer=4096) as raw:
        raw.send(get(b"/openapi.json") * 19 + get(b"/openapi.json", CLOSE))
        while some := raw.socket.recv(4096):
            seen += some

    assert len(statuses(seen)) == 20
    assert len(seen) > 20 * size


def test_unfinished_bodies_are_limited_over_all_connections(
    start: Callable[..., ServerProcess],
) -> None:
    server = start(SKEP_UNFINISHED_BYTES=str(4 * MB), SKEP_RECEIVE_SECONDS="60")
    half = request(b"/api/v1/push", b"Content-Length: %d" % (2 * MB)) + b" " * MB
    with ExitStack() as stack:
        held = [stack.enter_context(Raw(server)) for _ in range(3)]
        for raw in held:
            raw.send(half)
        while unfinished(server) < 3 * MB:
            pass
        rejected = exchange(server, half + b" " * (MB - 1))
        whole = exchange(server, push(CLOSE))
        finished = []
        for raw in held:
            raw.send(b" " * (MB - len(ITEM)) + ITEM + get(b"/health/live", CLOSE))
            finished.append(statuses(raw.read()))
    again = exchange(server, half + b" " * (MB - len(ITEM)) + ITEM, get(b"/health/live", CLOSE))

    assert statuses(rejected) == [503]
    assert b"\r\nretry-after: 1\r\n" in rejected
    assert statuses(whole) == [201]
    assert finished == [[201, 200]] * 3
    assert statuses(again) == [201, 200]


def test_bodies_that_were_given_up_no_longer_count(start: Callable[..., ServerProcess]) -> None:
    server = start(SKEP_UNFINISHED_BYTES=str(2 * MB))
    half = request(b"/api/v1/push", b"Content-Length: %d" % (2 * MB)) + b" " * MB
    for _ in range(5):
        with Raw(server) as raw:
            raw.send(half)
            while unfinished(server) < MB:
                pass
        while unfinished(server):
            pass


def test_a_waiting_poll_of_a_revoked_key_gets_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    revoked, other = create_key(["consumer"]), create_key(["producer", "consumer"])
    add_key(path, revoked.entry)
    add_key(path, other.entry)
    key, known = b"X-API-Key: " + revoked.text.encode(), b"X-API-Key: " + other.text.encode()
    take = b"/api/v1/pop/queue/orders?autoAck=true"
    with ServerProcess("memory://", "--api-keys", str(path)) as server, Raw(server) as raw:
        raw.send(get(take + b"&wait=true&timeout=60000", key, CLOSE))
        revoke_key(path, revoked.entry.id)
        while statuses(exchange(server, get(b"/health/live", key, CLOSE))) == [200]:
            pass
        exchange(server, push(known, CLOSE))
        poll = raw.read()
        left = exchange(server, get(take, known, CLOSE))

    assert (statuses(poll), statuses(left)) == ([401], [200])


# TLS


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """A certificate for this machine, and its key, as files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    (tmp_path / "server.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (tmp_path / "server.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    (tmp_path / "server.key").chmod(0o600)
    return str(tmp_path / "server.pem"), str(tmp_path / "server.key")


def test_a_tls_handshake_takes_no_longer_than_a_request(
    start: Callable[..., ServerProcess], certificate: tuple[str, str]
) -> None:
    server = start(
        SKEP_TLS_CERTIFICATE=certificate[0], SKEP_TLS_KEY=certificate[1], SKEP_RECEIVE_SECONDS="1"
    )

    with Raw(server) as raw:
        silent = raw.read()
    trusting = ssl.create_default_context(cafile=certificate[0])
    whole = httpx.get(f"{server.url}/health/live", verify=trusting)

    assert silent == b""
    assert whole.status_code == 200


# Logs


async def test_bad_requests_are_logged_as_counts(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    server = ReadyServer(broker, 0)
    serving = asyncio.create_task(server.serve())
    await server.ready.wait()
    for data in [b"\x00\r\n\r\n", b"CONNECT a:1 HTTP/1.1\r\n\r\n"] * 50:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(data)
        await reader.read()
        writer.close()
    server.should_exit = True
    await serving

    lines = [record.getMessage() for record in caplog.records]
    assert 1 <= len(lines) <= 3
    assert "valid HTTP" in lines[0]
