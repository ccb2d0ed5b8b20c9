"""What ``http/uvicorn_protocol.py`` and ``http/server.py`` use of uvicorn beyond its public API.

If a test fails after an upgrade of uvicorn: compare the methods that changed with ours, and only
then change the digests below and the range in pyproject.toml.
"""

import inspect
from hashlib import sha256
from types import FunctionType
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import Server, ServerState

from skep.http.server import HttpServer
from skep.http.uvicorn_protocol import LimitedProtocol

REPLACED = {
    HttpToolsProtocol.data_received: "010a7ae59a5d3b1a",
    HttpToolsProtocol.on_header: "65d62c044f61fdbd",
    HttpToolsProtocol.on_body: "dba9c32aeba35b6a",
    HttpToolsProtocol.on_message_complete: "1fbad42dc31fc01f",
    HttpToolsProtocol.on_response_complete: "64e254f28e389e76",
    HttpToolsProtocol.shutdown: "d7351fa33f00d430",
    RequestResponseCycle.send: "abdd8601b326a8da",
    Server.startup: "2aa1d70a244bfcf2",
}
"""Methods that ours replace without calling them or copy a part of; digests of their source."""
USED = {
    HttpToolsProtocol: {
        *("connections", "cycle", "expect_100_continue", "flow", "headers", "loop", "parser"),
        *("pipeline", "scope", "server_state", "transport"),
    },
    RequestResponseCycle: {
        *("body", "disconnected", "keep_alive", "message_event", "more_body"),
        *("response_complete", "response_started", "scope"),
    },
    FlowControl: {"read_paused", "write_paused"},
    ServerState: {"connections", "default_headers", "total_requests"},
    Server: {"config", "server_state", "should_exit", "started"},
}
"""Attributes that ours read or set; each must be set in the constructor."""


def overridden() -> list[tuple[type, type, str]]:
    return [
        (ours, theirs, name)
        for ours, theirs in ((LimitedProtocol, HttpToolsProtocol), (HttpServer, Server))
        for name, method in vars(ours).items()
        if isinstance(method, FunctionType) and name != "__init__" and hasattr(theirs, name)
    ]


@pytest.mark.parametrize(("ours", "theirs", "name"), overridden())
def test_a_method_takes_what_the_method_takes_that_it_overrides(
    ours: type, theirs: type, name: str
) -> None:
    signatures = [inspect.signature(getattr(each, name)) for each in (ours, theirs)]

    assert list(signatures[0].parameters) == list(signatures[1].parameters)


@pytest.mark.parametrize(("method", "digest"), REPLACED.items())
def test_a_method_that_is_replaced_is_the_one_that_was_read(method: Any, digest: str) -> None:
    source = inspect.getsource(method)

    assert sha256(source.encode()).hexdigest()[:16] == digest, uvicorn.__version__


@pytest.mark.parametrize(("owner", "names"), USED.items())
def test_an_attribute_that_is_used_is_set_by_its_owner(owner: type, names: set[str]) -> None:
    constructor = inspect.getsource(owner.__init__)  # type: ignore[misc]

    assert {name for name in names if f"self.{name}" not in constructor} == set()


def test_requests_are_started_by_the_name_that_is_called() -> None:
    parameters = inspect.signature(HttpToolsProtocol._start_asgi_task).parameters

    assert list(parameters) == ["self", "cycle", "app"]
