"""``skep serve``: builds a server from settings. The composition root."""

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
from skep.cli.exit_code import code_of, print_error
from skep.cli.supervisor import Supervisor, listen
from skep.core.limits import Limits
from skep.errors import Invalid, SkepError, Unavailable
from skep.http.app import App
from skep.http.auth.authenticator import build_authenticator
from skep.http.auth.cors import LOCAL, Origins
from skep.http.auth.exposure import check_exposure
from skep.http.limits import HttpLimits
from skep.http.routes import all_routes
from skep.http.server import Address, HttpServer
from skep.settings import Settings

Store = Annotated[
    str | None,
    typer.Option(help="Directory, rocksdb:///path, postgresql://… or memory://. [SKEP_STORE]"),
]
Host = Annotated[str | None, typer.Option(help="Address to listen on. [SKEP_HOST]")]
Port = Annotated[int | None, typer.Option(help="Port to listen on. [SKEP_PORT]")]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Number of worker processes; PostgreSQL only. [SKEP_WORKERS]"),
]
Anonymous = Annotated[
    bool | None,
    typer.Option(
        "--allow-anonymous",
        help="Allow unauthenticated access on a non-loopback address. [SKEP_ALLOW_ANONYMOUS]",
    ),
]
ApiKeys = Annotated[str | None, typer.Option(help="API key file. [SKEP_API_KEYS]")]
Certificate = Annotated[
    str | None, typer.Option(help="TLS certificate, a PEM file. [SKEP_TLS_CERTIFICATE]")
]
CertificateKey = Annotated[
    str | None, typer.Option(help="Key of the TLS certificate. [SKEP_TLS_KEY]")
]
LogLevel = Annotated[
    str | None, typer.Option(help="Log level: debug, info, warning or error. [SKEP_LOG_LEVEL]")
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
    """Run a server until it is stopped.

    Every option can also be set in the environment as SKEP_...; some settings exist only there,
    see docs/reference/settings.md. An unknown SKEP_ variable is an error.
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
        raise typer.Exit(_serve_workers(settings))


def _serve_workers(settings: Settings) -> int:
    if not settings.store.startswith(("postgresql://", "postgres://")):
        raise Invalid("workers", "must be 1: only PostgreSQL can be shared by several processes")
    check_exposure(settings)
    broker_limits(settings)
    try:
        listening = listen(settings.host, settings.port)
    except OSError as error:
        raise Unavailable(f"could not listen on port {settings.port}: {error}") from None

    def work(is_first: bool) -> None:
        try:
            uvloop.run(run(settings, listening, announce=is_first))
        except SkepError as error:
            print_error(str(error))
            raise SystemExit(code_of(error)) from None

    return Supervisor(listening, settings.workers, work).run()


async def run(
    settings: Settings, listening: socket.socket | None = None, *, announce: bool = True
) -> None:
    """Open the store, serve, and close the store."""
    check_exposure(settings)
    authenticator = build_authenticator(settings)
    limits = HttpLimits(
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
        started = partial(print_banner, settings) if announce else None
        server = HttpServer(app, broker, address, limits=limits, started=started)
        _tune_gc()
        await server.serve(sockets=[listening] if listening else None)
        broker.insight.health.check_store()


def broker_limits(settings: Settings) -> Limits:
    """Return the limits; raise ``Invalid`` if a payload could exceed all pending bytes."""
    limits = Limits(payload_bytes=settings.payload_bytes)
    if limits.payload_bytes > limits.pending_bytes:
        raise Invalid(
            "SKEP_PAYLOAD_BYTES",
            f"must be at most {limits.pending_bytes} (pending_bytes), not {limits.payload_bytes}",
        )
    return limits


def without_password(store: str) -> str:
    """Return the URL of a store without password and query."""
    scheme, separator, rest = store.partition("?")[0].partition("://")
    credentials, _, location = rest.rpartition("@")
    user = credentials.partition(":")[0]
    return f"{scheme}{separator}{user}@{location}" if user else f"{scheme}{separator}{location}"


def print_banner(settings: Settings, address: Address) -> None:
    """Print the URL, and commands to try."""
    url = address.url
    sys.stdout.write(
        f"skep with store {without_password(settings.store)} listens on {url}\n"
        f"  docs   {url}/docs\n"
        f"""  try    curl {url}/api/v1/push -d '{{"items":[{{"queue":"orders","payload":1}}]}}'\n"""
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


def _tune_gc() -> None:
    """Collect less often: objects made at startup stay, and requests make no cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
