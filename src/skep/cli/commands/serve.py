"""``skep serve``: from settings to a server. The composition root."""

import gc
import logging
import os
import socket
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from skep import embedded
from skep.cli import open_files
from skep.cli.encryption_key import read_encryption_keys
from skep.cli.exit_code import code_of, complain
from skep.cli.supervisor import Crew, listen
from skep.core.limits import Limits
from skep.errors import Invalid, SkepError, Unavailable
from skep.http.app import App
from skep.http.auth.authenticator import build_authenticator
from skep.http.auth.cors import LOCAL, Origins
from skep.http.auth.exposure import check_exposure
from skep.http.limits import DoorLimits
from skep.http.routes import all_routes
from skep.http.server import Address, HttpServer
from skep.settings import Settings

Store = Annotated[
    str | None,
    typer.Option(help="A directory, rocksdb:///path, postgresql://… or memory://. [SKEP_STORE]"),
]
Host = Annotated[str | None, typer.Option(help="The address to listen on. [SKEP_HOST]")]
Port = Annotated[int | None, typer.Option(help="The port to listen on. [SKEP_PORT]")]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Processes on the port, with PostgreSQL as the store. [SKEP_WORKERS]"),
]
Anonymous = Annotated[
    bool | None,
    typer.Option(
        "--allow-anonymous",
        help="Listen where others can reach it although nobody has to say who he is.",
    ),
]
ApiKeys = Annotated[str | None, typer.Option(help="A file with API keys. [SKEP_API_KEYS]")]
Certificate = Annotated[
    str | None, typer.Option(help="A PEM file, to serve over TLS. [SKEP_TLS_CERTIFICATE]")
]
CertificateKey = Annotated[str | None, typer.Option(help="Its key. [SKEP_TLS_KEY]")]
LogLevel = Annotated[
    str | None, typer.Option(help="debug, info, warning or error. [SKEP_LOG_LEVEL]")
]


def serve(
    store: Store = None,
    host: Host = None,
    port: Port = None,
    workers: Workers = None,
    allow_anonymous: Anonymous = None,
    api_keys: ApiKeys = None,
    tls_certificate: Certificate = None,
    tls_key: CertificateKey = None,
    log_level: LogLevel = None,
) -> None:
    """Run a server until it is told to stop.

    Every setting can be given as SKEP_... in the environment too, and some only there: see
    docs/reference/settings.md. A misspelt one stops the server.
    """
    settings = Settings.from_env(
        os.environ,
        store=store,
        host=host,
        port=port,
        workers=workers,
        allow_anonymous=allow_anonymous,
        api_keys=api_keys,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        log_level=log_level,
    )
    _log_to_stderr(settings.log_level)
    open_files.raise_limit()
    if settings.workers == 1:
        uvloop.run(run(settings))
    else:
        raise typer.Exit(_serve_together(settings))


def _serve_together(settings: Settings) -> int:
    if not settings.store.startswith(("postgresql://", "postgres://")):
        raise Invalid("workers", "must be 1: only PostgreSQL can be shared by several processes")
    check_exposure(settings)
    broker_limits(settings)
    try:
        listening = listen(settings.host, settings.port)
    except OSError as error:
        raise Unavailable(f"port {settings.port} cannot be listened on: {error}") from None

    def work(is_first: bool) -> None:
        try:
            uvloop.run(run(settings, listening, speaks=is_first))
        except SkepError as error:
            complain(str(error))
            raise SystemExit(code_of(error)) from None

    return Crew(listening, settings.workers, work).run()


async def run(
    settings: Settings, listening: socket.socket | None = None, *, speaks: bool = True
) -> None:
    """Open the store, serve, and close it again."""
    check_exposure(settings)
    authenticator = build_authenticator(settings)
    limits = DoorLimits(
        body_bytes=settings.body_bytes,
        unfinished_bytes=settings.unfinished_bytes,
        receive_seconds=settings.receive_seconds,
        write_seconds=settings.write_seconds,
        connections=settings.connections,
    )
    origins = Origins(
        allowed=frozenset(filter(None, settings.cors_origins.split(","))),
        hosts=None if settings.authenticated else LOCAL | {settings.host},
    )
    address = Address(
        host=settings.host,
        port=settings.port,
        certificate=settings.tls_certificate,
        certificate_key=settings.tls_key,
    )
    async with embedded.open(
        settings.store,
        keys=read_encryption_keys(settings.encryption_keys),
        limits=broker_limits(settings),
        sweep_interval=settings.sweep_seconds,
    ) as broker:
        routes = all_routes(
            backup_directory=Path(settings.backup_directory) if settings.backup_directory else None
        )
        app = App(broker, routes, authenticator=authenticator, origins=origins, limits=limits)
        started = partial(welcome, settings) if speaks else None
        server = HttpServer(app, broker, address, limits=limits, started=started)
        _spare_the_collector()
        await server.serve(sockets=[listening] if listening else None)
        broker.insight.health.check_store()


def broker_limits(settings: Settings) -> Limits:
    """Raise ``Invalid`` for a payload that would be refused whenever another push waits."""
    limits = Limits(payload_bytes=settings.payload_bytes)
    if limits.payload_bytes > limits.pending_bytes:
        raise Invalid(
            "SKEP_PAYLOAD_BYTES",
            f"must be at most {limits.pending_bytes}, not {limits.payload_bytes}: no more may wait "
            "for the store (pending_bytes)",
        )
    return limits


def without_password(store: str) -> str:
    """The URL of a store as it may be shown: of what could be secret, nothing."""
    scheme, separator, rest = store.partition("?")[0].partition("://")
    user, _, place = rest.rpartition("@")
    name = user.partition(":")[0]
    return f"{scheme}{separator}{name}@{place}" if name else f"{scheme}{separator}{place}"


def welcome(settings: Settings, address: Address) -> None:
    """Say what to open and what to type."""
    url = address.url
    sys.stdout.write(
        f"skep keeps its queues in {without_password(settings.store)} and listens on {url}\n"
        f"  open   {url}/docs\n"
        f"""  type   curl {url}/api/v1/push -d '{{"items":[{{"queue":"orders","payload":1}}]}}'\n"""
        f"         curl '{url}/api/v1/pop/queue/orders?autoAck=true'\n"
    )
    sys.stdout.flush()


def _log_to_stderr(level: str) -> None:
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise Invalid("log_level", f"{level!r} is not debug, info, warning or error")
    logging.basicConfig(
        level=number, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )


def _spare_the_collector() -> None:
    """What is here now stays for good, and what comes holds no cycles: look less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
