"""When a request is sent again."""

import logging

import httpx
import pytest

from skep import AsyncClient
from skep.client.request import failure_of
from skep.client.retry import Attempts, RequestFailure, Retry
from skep.errors import (
    Conflict,
    EncryptionUnavailable,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Overloaded,
    SkepError,
    Unavailable,
)
from tests.support.broker_builders import drafts
from tests.support.faulty_transport import Fault, Weather

LOST = RequestFailure(OutcomeUnknown("lost"))
REFUSED = RequestFailure(Unavailable("nobody listens"))
ATTEMPTS = 3


def end_of(
    *failures: RequestFailure, repeatable: bool = True, last_counts: bool = False
) -> SkepError | None:
    """What is raised after these failures; None if there is one more attempt."""
    attempts = Attempts(Retry(attempts=ATTEMPTS), repeatable=repeatable, last_counts=last_counts)
    for failure in failures:
        try:
            attempts.pause(failure)
        except SkepError as error:
            return error
    return None


@pytest.mark.parametrize("repeatable", [True, False])
def test_what_wrote_nothing_is_sent_again(repeatable: bool) -> None:
    assert end_of(REFUSED, REFUSED, repeatable=repeatable) is None
    assert end_of(RequestFailure(Overloaded(1.0)), repeatable=repeatable) is None


def test_what_the_server_asks_to_repeat_is_sent_again() -> None:
    assert end_of(RequestFailure(Conflict("full"), retry_after=1.0), repeatable=False) is None


@pytest.mark.parametrize(
    "error",
    [Invalid("a", "b"), NotFound(), Conflict(), EncryptionUnavailable("no key"), SkepError()],
)
def test_what_would_fail_again_is_not_sent_again(error: SkepError) -> None:
    assert end_of(RequestFailure(error)) is error


def test_what_may_have_been_written_is_sent_again_only_if_that_does_no_harm() -> None:
    assert end_of(LOST, LOST, repeatable=True) is None
    assert end_of(LOST, repeatable=False) is LOST.error


def test_there_is_an_end() -> None:
    assert end_of(REFUSED, REFUSED, REFUSED) is REFUSED.error


def test_an_answer_that_was_lost_once_is_not_forgotten() -> None:
    assert isinstance(end_of(LOST, REFUSED, REFUSED), OutcomeUnknown)
    assert isinstance(end_of(LOST, RequestFailure(Conflict("late"))), OutcomeUnknown)


def test_a_question_gets_the_last_answer() -> None:
    last = NotFound("no such message")

    assert end_of(LOST, RequestFailure(last), last_counts=True) is last


def test_pauses_grow_with_jitter_up_to_a_bound() -> None:
    retry = Retry(first_delay=1.0, max_delay=5.0)

    assert [retry.delay(n) for n in (1, 2, 3, 4, 2000)] == [1, 2, 4, 5, 5]
    assert [retry.delay(n, jitter=0.0) for n in (1, 2, 3)] == [0.5, 1, 2]


def test_a_pause_is_as_long_as_the_server_asks_within_reason() -> None:
    retry = Retry(first_delay=1.0, max_delay=5.0)

    assert retry.delay(1, retry_after=3.0) == 3
    assert retry.delay(1, retry_after=3600.0) == 5


@pytest.mark.parametrize("error", [httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout])
def test_who_was_not_reached_wrote_nothing(error: type[httpx.TransportError]) -> None:
    assert isinstance(failure_of(error("")).error, Unavailable)


@pytest.mark.parametrize(
    "error",
    [
        httpx.ReadTimeout,
        httpx.WriteTimeout,
        httpx.ReadError,
        httpx.WriteError,
        httpx.CloseError,
        httpx.RemoteProtocolError,
        httpx.DecodingError,
    ],
)
def test_who_was_reached_may_have_written(error: type[httpx.RequestError]) -> None:
    assert isinstance(failure_of(error("")).error, OutcomeUnknown)


async def test_a_server_that_is_too_busy_is_asked_again_when_it_says() -> None:
    asked = 0

    def busy_at_first(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        if asked < 3:
            problem = {"error": "busy", "type": "Overloaded", "retry_after": 0.0}
            return httpx.Response(429, json=problem, headers={"Retry-After": "0"})
        return httpx.Response(201, json=[{"status": "queued"}])

    retry = Retry(attempts=3, max_delay=0)
    async with AsyncClient(retry=retry, transport=httpx.MockTransport(busy_at_first)) as client:
        await client.push("orders", drafts(1))

    assert asked == 3


async def test_nobody_at_the_address_means_that_nothing_was_written(unused_port: int) -> None:
    url = f"http://127.0.0.1:{unused_port}"

    async with AsyncClient(url, retry=Retry(attempts=2, max_delay=0)) as client:
        with pytest.raises(Unavailable, match="cannot be reached"):
            await client.push("orders", drafts(1))


async def test_a_client_reads_nothing_from_its_surroundings(
    monkeypatch: pytest.MonkeyPatch, unused_port: int
) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy", "SKEP_URL", "SKEP_TOKEN"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{unused_port}")
    seen: list[httpx.Request] = []

    def look(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(204)

    async with AsyncClient(transport=httpx.MockTransport(look)) as client:
        await client.pop("orders")

    assert str(seen[0].url).startswith("http://127.0.0.1:6632/")
    assert "authorization" not in seen[0].headers


async def test_a_token_is_sent_as_a_bearer_token() -> None:
    def look(request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == "Bearer secret"
        return httpx.Response(204)

    async with AsyncClient(token="secret", transport=httpx.MockTransport(look)) as client:
        assert await client.pop("orders") is None


async def test_a_retry_is_logged(
    client: AsyncClient, weather: Weather, caplog: pytest.LogCaptureFixture
) -> None:
    weather.coming.append(Fault.REFUSED)

    with caplog.at_level(logging.INFO, "skep.client"):
        await client.push("orders", drafts(1))

    (record,) = (record for record in caplog.records if record.name == "skep.client")
    assert record.message.startswith(
        "request failed, retrying: method=POST path=/api/v1/push delay=0.0s error=the server"
    )
