"""Runs uvicorn with our protocol, and stops it gracefully."""

import asyncio
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from skep.core.broker import Broker
from skep.errors import StoreFailed
from skep.http.app import App
from skep.http.limits import HttpLimits
from skep.http.process.memory_trim import MemoryTrimmer
from skep.http.rejection import REPORT_SECONDS
from skep.http.uvicorn_protocol import LimitedProtocol

_log = logging.getLogger("skep.http")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)

GRACE_SECONDS = 8
"""Maximum time for requests in progress after the signal; the rest of ten seconds is for the
store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen; with a certificate, over TLS."""

    host: str = "127.0.0.1"
    port: int = 6632
    certificate: str | None = None
    certificate_key: str | None = None

    @property
    def url(self) -> str:
        scheme = "https" if self.certificate else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}"


class HttpServer(uvicorn.Server):
    """Serves until a signal arrives: then it returns parked long polls and completes requests."""

    def __init__(
        self,
        app: App,
        broker: Broker,
        address: Address,
        *,
        limits: HttpLimits | None = None,
        started: Callable[[Address], None] | None = None,
    ) -> None:
        limits = limits or HttpLimits()
        self._limits = limits
        self._rejections = app.server_info.rejections
        self._protocol: Callable[..., asyncio.Protocol] = type(
            "ConfiguredProtocol",
            (LimitedProtocol,),
            {
                "limits": limits,
                "budget": app.server_info.bodies,
                "rejections": self._rejections,
            },
        )
        super().__init__(
            uvicorn.Config(
                app,
                host=address.host,
                port=address.port,
                http=cast("type[asyncio.Protocol]", self._protocol),
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,
                backlog=4096,
                timeout_keep_alive=int(limits.idle_seconds),
                timeout_graceful_shutdown=GRACE_SECONDS,
                ssl_certfile=address.certificate,
                ssl_keyfile=address.certificate_key,
            )
        )
        self._broker = broker
        self._address = address
        self._started = started
        self._memory_trimmer = MemoryTrimmer()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Like uvicorn's, but with a time limit for TLS handshakes."""
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {"backlog": self.config.backlog}
        if self.config.ssl is not None:
            options["ssl"] = self.config.ssl
            options["ssl_handshake_timeout"] = self._limits.receive_seconds
        try:
            if sockets:
                listening = [loop.create_server(self._connect, sock=s, **options) for s in sockets]
            else:
                host, port = self.config.host, self.config.port
                listening = [loop.create_server(self._connect, host, port, **options)]
            self.servers = [await each for each in listening]
        except OSError as error:
            _log.error("cannot listen: error=%s", error)
            sys.exit(STARTUP_FAILURE)
        self.started = True
        if self._started:
            self._started(replace(self._address, port=self.port))

    def _connect(self) -> asyncio.Protocol:
        return self._protocol(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    @property
    def port(self) -> int:
        """The port it listens on; with port 0 the system chooses it."""
        listening: socket.socket = self.servers[0].sockets[0]
        return int(listening.getsockname()[1])

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal without raising it again: the store must be closed first."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second by uvicorn."""
        self._memory_trimmer.observe(len(self.server_state.connections))
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                cast("LimitedProtocol", connection).check(now)
            self._stop_if_the_store_failed()
        if counter % (10 * REPORT_SECONDS) == 0:
            self._rejections.report()
        return await super().on_tick(counter)

    def _stop_if_the_store_failed(self) -> None:
        """Exit: opening the store again helps, and a supervisor restarts the process."""
        try:
            self._broker.insight.health.check_store()
        except StoreFailed as error:
            _log.critical("stopping because the store failed: error=%s", error)
            self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._broker.drain()
        await super().shutdown(sockets)
        self._rejections.report()
