"""Whatever the OpenAPI document allows, and much that it does not, gets a sensible answer."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from skep.http.openapi import document
from skep.http.routes import all_routes
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.xdist_group("fuzz")
EXAMPLES = 15
"""Requests per route; many of them wrong on purpose."""


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("memory://") as server:
        yield server


@schemathesis.serializer("application/vnd.apache.arrow.stream")
def as_it_is(context: Any, value: Any) -> Any:
    return value


schema = schemathesis.openapi.from_dict(document(all_routes(), version="test"))


@schema.parametrize()
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
def test_no_request_is_answered_with_a_failure(case: Any, server: ServerProcess) -> None:
    if "wait" in (case.query or {}):
        case.query["timeout"] = 1
    case.call_and_validate(
        base_url=server.url,
        checks=[not_a_server_error, status_code_conformance, response_schema_conformance],
        timeout=30,
    )
