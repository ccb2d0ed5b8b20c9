"""Keys that a provider publishes: when they are fetched, which are used, how long they serve."""

import asyncio
import gzip
import logging
from typing import Any

import pytest

from skep.errors import Invalid, Unauthenticated, Unavailable
from skep.http.auth.jwks import FRESH_SECONDS, MAX_BYTES, RETRY_SECONDS, PublishedKeys, check_url
from skep.http.auth.jwt import Expected, Tokens
from skep.testing.clock import ManualClock
from tests.support.http.identity_provider import URL, Provider, endless, once
from tests.support.http.token_signing import (
    ED25519,
    OTHER_RSA,
    RSA,
    SECRET,
    START,
    base64url,
    published,
    seconds,
    sign,
)


@pytest.fixture
def provider() -> Provider:
    return Provider(published("one", RSA))


@pytest.fixture
def tokens(provider: Provider, clock: ManualClock) -> Tokens:
    keys = PublishedKeys(URL, transport=provider, now=lambda: seconds(clock))
    return Tokens(keys, Expected(), now=lambda: seconds(clock))


def signed(kid: str | None = "one", algorithm: str = "RS256", **other: Any) -> bytes:
    headers = {} if kid is None else {"kid": kid}
    return sign(algorithm, headers=headers, exp=START + 1_000_000, **other).encode()


async def refusal(tokens: Tokens, token: bytes) -> str:
    with pytest.raises(Unauthenticated) as refused:
        await tokens.verify(token)
    return str(refused.value)


async def test_a_token_is_believed_if_a_published_key_signed_it(
    tokens: Tokens, provider: Provider
) -> None:
    provider.keys.append(published("two", ED25519))

    first = await tokens.verify(signed())
    second = await tokens.verify(signed("two", "EdDSA", sub="bob"))

    assert (first.principal.subject, second.principal.subject) == ("alice", "bob")


async def test_keys_are_fetched_once_for_many_tokens(tokens: Tokens, provider: Provider) -> None:
    for _ in range(5):
        await tokens.verify(signed())

    assert provider.fetches == 1


async def test_those_who_come_together_wait_for_one_fetch(
    tokens: Tokens, provider: Provider
) -> None:
    gate = provider.be_slow()
    verifying = [asyncio.create_task(tokens.verify(signed())) for _ in range(5)]
    await _turn()

    gate.set()
    verified = await asyncio.gather(*verifying)

    assert [each.principal.subject for each in verified] == ["alice"] * 5
    assert provider.fetches == 1


async def test_a_token_signed_with_a_key_that_is_not_published_is_refused(tokens: Tokens) -> None:
    reason = await refusal(tokens, signed("other", key=OTHER_RSA))

    assert reason == "the token is signed with an unknown key"


async def test_a_token_that_names_a_key_and_is_signed_with_another_is_refused(
    tokens: Tokens,
) -> None:
    reason = await refusal(tokens, signed("one", key=OTHER_RSA))

    assert reason == "the token's signature is invalid"


async def test_a_token_that_does_not_name_its_key_is_refused(
    tokens: Tokens, provider: Provider
) -> None:
    reason = await refusal(tokens, signed(None))

    assert reason == "the token does not name its key (kid)"
    assert provider.fetches == 0


async def test_the_published_key_decides_the_algorithm(tokens: Tokens, provider: Provider) -> None:
    provider.keys.append(published("two", ED25519))

    reason = await refusal(tokens, signed("two", "RS256"))

    assert reason == "the token's algorithm is not this server's"


async def test_a_key_that_was_added_is_found_when_a_token_names_it(
    tokens: Tokens, provider: Provider, clock: ManualClock
) -> None:
    await tokens.verify(signed())
    provider.keys.append(published("two", OTHER_RSA))
    clock.advance(RETRY_SECONDS)

    verified = await tokens.verify(signed("two", key=OTHER_RSA))

    assert verified.principal.subject == "alice"
    assert provider.fetches == 2


async def test_tokens_with_unknown_keys_cannot_make_us_fetch_again_and_again(
    tokens: Tokens, provider: Provider, clock: ManualClock
) -> None:
    await tokens.verify(signed())
    clock.advance(RETRY_SECONDS)

    for number in range(20):
        await refusal(tokens, signed(f"invented-{number}"))
        clock.advance(RETRY_SECONDS / 100)

    assert provider.fetches == 2


async def test_a_clock_that_is_set_back_does_not_keep_us_from_fetching(
    tokens: Tokens, provider: Provider, clock: ManualClock
) -> None:
    await tokens.verify(signed())
    provider.keys.append(published("two", OTHER_RSA))
    clock.advance(-3600)

    verified = await tokens.verify(signed("two", key=OTHER_RSA))

    assert verified.principal.subject == "alice"


async def test_a_key_that_was_withdrawn_is_forgotten_with_the_next_fetch(
    tokens: Tokens, provider: Provider, clock: ManualClock
) -> None:
    await tokens.verify(signed())
    provider.keys.clear()
    clock.advance(FRESH_SECONDS - 1)
    await tokens.verify(signed())

    clock.advance(1)

    assert await refusal(tokens, signed()) == "the token is signed with an unknown key"


async def test_known_keys_go_on_working_while_the_provider_is_away(
    tokens: Tokens, provider: Provider, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    await tokens.verify(signed())
    provider.be_away()
    clock.advance(10 * FRESH_SECONDS)

    verified = await tokens.verify(signed())

    assert verified.principal.subject == "alice"
    assert provider.fetches == 2
    assert "could not fetch signing keys: host=id.example error=ConnectError" in caplog.messages


async def test_known_keys_do_not_wait_for_a_provider_that_is_slow(
    tokens: Tokens, provider: Provider, clock: ManualClock
) -> None:
    await tokens.verify(signed())
    gate = provider.be_slow()
    clock.advance(FRESH_SECONDS)
    fetching = asyncio.create_task(tokens.verify(signed()))
    await _turn()

    verified = await tokens.verify(signed())

    assert verified.principal.subject == "alice"
    assert not fetching.done()
    gate.set()
    await fetching


async def test_no_token_is_believed_before_the_provider_has_answered(
    tokens: Tokens, provider: Provider, clock: ManualClock
) -> None:
    provider.be_away()

    for _ in range(5):
        with pytest.raises(Unavailable, match="could not be fetched yet"):
            await tokens.verify(signed())
    fetches = provider.fetches
    provider.be_back()
    clock.advance(RETRY_SECONDS)

    assert fetches == 1
    assert (await tokens.verify(signed())).principal.subject == "alice"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((302, {"location": "https://evil.example/keys"}, b""), "status 302"),
        ((500, {}, b'{"keys": []}'), "status 500"),
        ((200, {}, b"<html>"), "not a set of keys"),
        ((200, {}, b'{"keys": {}}'), "not a set of keys"),
        ((200, {}, b'{"keys": ["key"]}'), "not a set of keys"),
        ((200, {}, b"[]"), "not a set of keys"),
        ((200, {}, b"[" * 100_000), "not a set of keys"),
        ((200, {}, b'{"keys": [{"kid": "\xff"}]}'), "not a set of keys"),
        ((200, {"content-encoding": "gzip"}, gzip.compress(b'{"keys": []}')), "compressed"),
        ((200, {}, b" " * (MAX_BYTES + 1)), "larger than"),
        ((200, {}, endless), "larger than"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_an_answer_that_is_no_set_of_keys_changes_nothing(
    answer: Any,
    why: str,
    tokens: Tokens,
    provider: Provider,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await tokens.verify(signed())
    status, headers, content = answer
    provider.say(status, headers, content() if callable(content) else once(content))
    clock.advance(FRESH_SECONDS)

    verified = await tokens.verify(signed())

    assert verified.principal.subject == "alice"
    assert provider.fetches == 2
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert why in line.getMessage()


@pytest.mark.parametrize(
    "unfit",
    [
        {"kty": "oct", "k": base64url(SECRET.encode()), "alg": "HS256", "kid": "bad"},
        {"kty": "oct", "k": "", "kid": "bad"},
        {"kty": "EC", "kid": "bad"},
        {"kty": ["RSA"], "kid": "bad"},
        {"kty": "RSA", "kid": "bad"},
        {"kty": "RSA", "n": 7, "e": {}, "kid": "bad"},
        {"kid": "bad"},
        published("bad", RSA, use="enc"),
        published("bad", RSA, alg="RS512"),
        published("bad", RSA, alg="HS256"),
        published("bad", RSA, alg=7),
        published("bad", ED25519, crv="Ed448"),
        published("bad", RSA) | {"kid": 7},
    ],
)
async def test_a_published_key_that_we_have_no_use_for_is_passed_over(
    unfit: dict[str, Any], tokens: Tokens, provider: Provider
) -> None:
    provider.keys = [unfit, published("one", RSA)]

    good = await tokens.verify(signed("one"))
    bad = [await refusal(tokens, signed("bad", each)) for each in ("RS256", "EdDSA", "HS256")]

    assert good.principal.subject == "alice"
    assert set(bad) == {"the token is signed with an unknown key"}


async def test_a_provider_that_never_answers_is_given_up(provider: Provider) -> None:
    provider.be_slow()
    tokens = Tokens(PublishedKeys(URL, transport=provider, timeout=0.01), Expected())

    with pytest.raises(Unavailable):
        await tokens.verify(signed())

    assert provider.fetches == 1


async def test_keys_of_this_machine_do_not_come_through_a_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    server, asked = await _redirecting()

    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Unavailable):
            await Tokens(PublishedKeys(f"http://127.0.0.1:{port}/keys"), Expected()).verify(
                signed()
            )

    assert asked == [b"GET /keys HTTP/1.1\r\n"]


async def test_a_redirection_is_not_followed_over_a_real_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, asked = await _redirecting()

    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Unavailable):
            await Tokens(PublishedKeys(f"http://127.0.0.1:{port}/keys"), Expected()).verify(
                signed()
            )

    assert asked == [b"GET /keys HTTP/1.1\r\n"]
    assert "the response has status 302" in caplog.text


@pytest.mark.parametrize(
    "url",
    [
        "https://id.example/keys",
        "https://10.0.0.7:8443/keys",
        "http://localhost:8080/keys",
        "http://127.0.0.1/keys",
        "http://[::1]:8080/keys",
    ],
)
def test_keys_may_be_fetched_over_tls_or_from_this_machine(url: str) -> None:
    assert check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://id.example/keys",
        "http://localhost.evil.example/keys",
        "http://127.0.0.1.evil.example/keys",
        "http://0.0.0.0/keys",
        "http://10.0.0.7/keys",
        "file:///etc/passwd",
        "ftp://id.example/keys",
        "https:///keys",
        "/keys",
        "id.example/keys",
        "",
        "https://id.example:port/keys",
        "https://[::1/keys",
        "https://user:canary@id.example/keys",
        "https://id.example\x00/keys",
    ],
)
def test_keys_may_not_be_fetched_from_elsewhere(url: str) -> None:
    with pytest.raises(Invalid, match=r"^jwt_jwks_url: ") as refused:
        PublishedKeys(url)

    assert "canary" not in str(refused.value)


async def _redirecting() -> tuple[asyncio.Server, list[bytes]]:
    """A server that sends everybody elsewhere, and what it was asked for."""
    asked: list[bytes] = []

    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.write(b"HTTP/1.1 302 Found\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    return await asyncio.start_server(redirect, "127.0.0.1", 0), asked


async def _turn() -> None:
    for _ in range(50):
        await asyncio.sleep(0)
