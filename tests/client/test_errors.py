"""Errors that come over HTTP: each arrives as the one that was raised."""

import inspect
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from skep import AsyncClient, Broker, errors
from skep.client.retry import Retry
from skep.errors import SkepError
from skep.http.app import App
from skep.http.auth.authenticator import AllowAll
from skep.http.auth.principal import Permission
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routing import Route, no_queue
from skep.wire.message.push import PushBody
from skep.wire.problem import from_response
from tests.client.conftest import AT_ONCE
from tests.support.broker_builders import drafts

ARGUMENTS = {"number": 7, "retry_after": 2.5, "depth": 3, "capacity": 3}


def every_error() -> Iterator[SkepError]:
    """One of each, with something in all its fields."""
    found: dict[str, Any] = dict(inspect.getmembers(errors, inspect.isclass))
    for cls in found.values():
        if cls.__init__ is Exception.__init__:
            yield cls("there is a reason")
            continue
        names = list(inspect.signature(cls).parameters.values())
        values = {each.name: ARGUMENTS.get(each.name, f"some {each.name}") for each in names}
        named = {each.name for each in names if each.kind is inspect.Parameter.KEYWORD_ONLY}
        yield cls(
            *(value for name, value in values.items() if name not in named),
            **{name: value for name, value in values.items() if name in named},
        )


def failing_app(broker: Broker, error: Exception) -> App:
    async def fail(call: HttpRequest) -> HttpResponse:
        raise error

    route = Route(
        method="POST",
        path="/api/v1/push",
        handler=fail,
        needs=Permission.PUSH,
        queues=no_queue,
        summary="Fails.",
        body=PushBody,
    )
    return App(broker, [route], authenticator=AllowAll())


@pytest.mark.parametrize("error", list(every_error()), ids=lambda error: type(error).__name__)
async def test_an_error_arrives_as_itself(broker: Broker, error: SkepError) -> None:
    transport = httpx.ASGITransport(failing_app(broker, error))

    async with AsyncClient(retry=Retry(attempts=1), transport=transport) as client:
        with pytest.raises(SkepError) as caught:
            await client.push("orders", drafts(1))

    assert type(caught.value) is type(error)
    assert str(caught.value) == str(error)
    assert vars(caught.value) == vars(error)


async def test_a_server_that_fails_in_the_middle_leaves_it_open_what_it_did(
    broker: Broker,
) -> None:
    transport = httpx.ASGITransport(failing_app(broker, ZeroDivisionError()))

    async with AsyncClient(retry=AT_ONCE, transport=transport) as client:
        with pytest.raises(errors.OutcomeUnknown, match="internal server error"):
            await client.push("orders", drafts(1))


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, b"", errors.Invalid),
        (401, b"<html>", errors.Unauthenticated),
        (403, b"[]", errors.Forbidden),
        (404, b'{"error": "there is nothing at this path"}', errors.NotFound),
        (408, b"{}", errors.Unavailable),
        (413, b"{}", errors.TooLarge),
        (429, b"{}", errors.Unavailable),
        (503, b'{"type": "FromTheFuture"}', errors.Unavailable),
        (500, b"{}", errors.OutcomeUnknown),
        (502, b"<html>", errors.OutcomeUnknown),
        (504, b"{", errors.OutcomeUnknown),
        (418, b'{"error": "I am a teapot"}', SkepError),
        (302, b"", SkepError),
    ],
)
def test_an_answer_that_is_not_ours_means_what_its_status_says(
    status: int, body: bytes, kind: type[SkepError]
) -> None:
    assert type(from_response(status, body)) is kind


async def test_an_answer_that_makes_no_sense_leaves_it_open_what_was_done() -> None:
    def nonsense(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text="<html>welcome to the hotel</html>")

    async with AsyncClient(transport=httpx.MockTransport(nonsense)) as client:
        with pytest.raises(errors.OutcomeUnknown, match="could not decode"):
            await client.push("orders", drafts(1))


async def test_a_closed_client_says_so(queue: AsyncClient) -> None:
    await queue.close()

    with pytest.raises(errors.Closed):
        await queue.pop("orders")


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:6632", "ftp://127.0.0.1", "http://", "http://[::1", None]
)
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(errors.Invalid) as caught:
        AsyncClient(url)

    assert caught.value.field == "url"


@pytest.mark.parametrize("token", ["", "a\nb", "ä"])
def test_a_token_that_cannot_stand_in_a_header_is_refused(token: str) -> None:
    with pytest.raises(errors.Invalid) as caught:
        AsyncClient(token=token)

    assert caught.value.field == "token"
    assert not token or token not in str(caught.value)
