"""Who is let in: tokens and keys at the door."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from skep import Broker
from skep.http.app import App
from skep.http.auth import authenticator as auth
from skep.http.auth.api_key import CHECK_SECONDS, ApiKeys, NewKey, create_key
from skep.http.auth.api_key_file import add_key, revoke_key
from skep.http.auth.authenticator import AllowAll, CredentialCheck
from skep.http.auth.jwt import Expected, SingleKey, Tokens, VerifyingKey, from_secret
from skep.http.auth.principal import FULL_ACCESS, NO_CREDENTIALS, Permission
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routing import Route, no_queue
from skep.testing.clock import ManualClock
from tests.support.http.authenticated_app import knock, make_app
from tests.support.http.identity_provider import URL, Provider
from tests.support.http.token_signing import (
    OTHER_RSA,
    RSA,
    SECRET,
    START,
    bearer,
    claims,
    part,
    pem,
    published,
    seconds,
    sign,
    sign_claims,
    sign_parts,
    write_pem,
)

PUSH = {"items": [{"queue": "orders", "payload": 1}]}
CANARY = "canary4711"


@pytest.fixture
def key(tmp_path: Path) -> NewKey:
    key = create_key(["admin"], subject="billing")
    add_key(tmp_path / "keys.json", key.entry)
    return key


@pytest.fixture
def app(broker: Broker, clock: ManualClock, tmp_path: Path, key: NewKey) -> App:
    """A door that takes tokens and keys."""
    return make_app(
        broker,
        clock,
        jwt_secret=SECRET,
        jwt_audience="skep",
        jwt_issuer="us",
        api_keys=str(tmp_path / "keys.json"),
    )


def ours(**other: Any) -> str:
    return sign(iss="us", aud="skep", **other)


async def push(app: App, **headers: str) -> httpx.Response:
    async with knock(app, **headers) as client:
        return await client.post("/api/v1/push", json=PUSH)


# Who is let in.


async def test_a_token_opens_the_door(app: App) -> None:
    answer = await push(app, **bearer(ours()))

    assert answer.status_code == 201


@pytest.mark.parametrize("scheme", ["bearer ", "BEARER ", "Bearer   ", ""])
async def test_a_token_may_be_sent_as_queens_clients_do(app: App, scheme: str) -> None:
    answer = await push(app, authorization=scheme + ours())

    assert answer.status_code == 201


async def test_a_key_opens_the_door_in_its_own_header_or_as_a_token(app: App, key: NewKey) -> None:
    own = await push(app, x_api_key=key.text)
    as_token = await push(app, **bearer(key.text))

    assert (own.status_code, as_token.status_code) == (201, 201)


# Who is not.

REFUSED: dict[str, Callable[[], str]] = {
    "forged signature": lambda: ours(key="another secret that is long enough too"),
    "expired": lambda: ours(exp=START - 31),
    "not yet valid": lambda: ours(nbf=START + 31),
    "wrong audience": lambda: sign(iss="us", aud="wiki"),
    "no audience": lambda: sign(iss="us"),
    "wrong issuer": lambda: sign(iss="them", aud="skep"),
    "no issuer": lambda: sign(aud="skep"),
    "alg none": lambda: f"{part({'alg': 'none'})}.{part(claims(iss='us', aud='skep'))}.",
    "another algorithm": lambda: sign("RS256", iss="us", aud="skep"),
    "no expiry": lambda: ours(exp=None),
    "huge": lambda: ours(note="x" * 10_000),
    "jku": lambda: ours(headers={"jku": "https://evil.example"}),
    "x5u": lambda: ours(headers={"x5u": "https://evil.example"}),
    "jwk": lambda: ours(headers={"jwk": {"kty": "oct", "k": "AAAA"}}),
    "crit": lambda: sign_parts(
        {"alg": "HS256", "crit": ["exp"]}, part(claims(iss="us", aud="skep"))
    ),
    "queues null": lambda: sign_claims(claims(iss="us", aud="skep") | {"queues": None}),
    "no token": lambda: "nonsense",
    "unknown key": lambda: create_key(["admin"]).text,
    "half a key": lambda: "skep_abc",
}


@pytest.mark.parametrize("name", REFUSED)
async def test_who_shows_something_false_is_refused_and_nothing_is_written(
    name: str, app: App, broker: Broker
) -> None:
    token = REFUSED[name]()

    answer = await push(app, **bearer(token))

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["type"] == "Unauthenticated"
    assert token not in answer.text
    assert await broker.queues.list() == []


async def test_a_public_key_cannot_be_used_as_a_secret(
    broker: Broker, clock: ManualClock, tmp_path: Path
) -> None:
    app = make_app(broker, clock, jwt_public_key=write_pem(tmp_path / "key.pem", RSA))
    confused = sign_parts({"alg": "HS256"}, part(claims()), key=pem(RSA))

    refused = await push(app, **bearer(confused))
    right = await push(app, **bearer(sign("RS256")))

    assert (refused.status_code, right.status_code) == (401, 201)


async def test_a_key_id_that_nobody_published_is_refused(
    broker: Broker, clock: ManualClock
) -> None:
    app = make_app(broker, clock, jwt_jwks_url=URL, transport=Provider(published("one", RSA)))
    unknown = sign("RS256", key=OTHER_RSA, headers={"kid": "two"})

    refused = await push(app, **bearer(unknown))
    right = await push(app, **bearer(sign("RS256", headers={"kid": "one"})))

    assert (refused.status_code, right.status_code) == (401, 201)


async def test_without_the_keys_of_the_provider_the_door_stays_shut(
    broker: Broker, clock: ManualClock
) -> None:
    provider = Provider()
    provider.be_away()
    app = make_app(broker, clock, jwt_jwks_url=URL, transport=provider)

    answer = await push(app, **bearer(sign("RS256", headers={"kid": "one"})))

    assert answer.status_code == 503
    assert await broker.queues.list() == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        {"authorization": "Basic YTpi"},
        {"authorization": "skep_abc_def x"},
        {"x_api_key": ""},
        {"x_api_key": "nonsense"},
    ],
)
async def test_who_shows_nothing_is_refused_and_told_what_to_send(
    headers: dict[str, str], app: App
) -> None:
    answer = await push(app, **headers)

    assert answer.status_code == 401
    assert any(word in answer.json()["error"] for word in ("Bearer", "X-API-Key", "Web Token"))


async def test_a_token_is_no_key(app: App) -> None:
    answer = await push(app, x_api_key=ours())

    assert answer.status_code == 401


async def test_who_shows_two_things_is_refused(app: App, key: NewKey) -> None:
    answer = await push(app, x_api_key=key.text, **bearer(ours()))

    assert answer.status_code == 401


async def test_a_door_for_tokens_takes_no_keys_and_the_other_way_round(
    broker: Broker, clock: ManualClock, tmp_path: Path, key: NewKey
) -> None:
    for_tokens = make_app(broker, clock, jwt_secret=SECRET)
    for_keys = make_app(broker, clock, api_keys=str(tmp_path / "keys.json"))

    with_key = await push(for_tokens, x_api_key=key.text)
    with_token = await push(for_keys, **bearer(sign()))

    assert with_key.json()["error"] == "this server accepts tokens, not API keys"
    assert (
        with_token.json()["error"] == "this server accepts keys that begin with skep_, not tokens"
    )


async def test_a_revoked_key_is_refused(
    app: App, clock: ManualClock, tmp_path: Path, key: NewKey
) -> None:
    before = await push(app, x_api_key=key.text)

    revoke_key(tmp_path / "keys.json", key.entry.id)
    clock.advance(CHECK_SECONDS)
    after = await push(app, x_api_key=key.text)

    assert (before.status_code, after.status_code) == (201, 401)


# Routes that need nothing.


async def test_a_route_that_needs_nothing_is_open_to_who_shows_nothing(
    broker: Broker, clock: ManualClock
) -> None:
    app = make_app(broker, clock, routes=[_open_route()], jwt_secret=SECRET)

    async with knock(app) as client:
        nobody = await client.get("/health")
        alice = await client.get("/health", headers=bearer(sign()))
        forger = await client.get("/health", headers=bearer(sign(key="f" * 40)))

    assert (nobody.json(), alice.json()) == ([None, False], ["alice", True])
    assert forger.status_code == 401


async def test_nobody_has_no_rights_and_sees_no_queue() -> None:
    door = CredentialCheck(tokens=_tokens(from_secret(SECRET), ManualClock()))

    principal = await door.authenticate(Permission.NONE, b"", b"")

    assert principal == NO_CREDENTIALS
    assert principal.permissions == frozenset()
    assert not principal.sees("orders")


async def test_where_nobody_is_asked_everybody_may_do_everything() -> None:
    principal = await AllowAll().authenticate(Permission.ADMIN, b"", b"")

    assert principal == FULL_ACCESS


# Remembering.


async def test_a_token_is_verified_once_and_remembered(broker: Broker, clock: ManualClock) -> None:
    provider = Provider(published("one", RSA))
    app = make_app(broker, clock, jwt_jwks_url=URL, transport=provider)
    token = sign("RS256", headers={"kid": "one"}, exp=START + 10_000)
    await push(app, **bearer(token))
    provider.keys.clear()
    clock.advance(auth.CACHE_SECONDS - 1)

    remembered = await push(app, **bearer(token))

    assert remembered.status_code == 201
    assert provider.fetches == 1


async def test_a_remembered_token_does_not_outlive_its_key(
    broker: Broker, clock: ManualClock
) -> None:
    provider = Provider(published("one", RSA))
    app = make_app(broker, clock, jwt_jwks_url=URL, transport=provider)
    token = sign("RS256", headers={"kid": "one"}, exp=START + 10_000)
    await push(app, **bearer(token))
    provider.keys.clear()

    for _ in range(11):
        clock.advance(auth.CACHE_SECONDS)
        last = await push(app, **bearer(token))

    assert last.status_code == 401


async def test_a_remembered_token_does_not_outlive_itself(app: App, clock: ManualClock) -> None:
    token = ours(exp=START + 5)
    first = await push(app, **bearer(token))
    clock.advance(34.9)
    last = await push(app, **bearer(token))

    clock.advance(0.1)
    late = await push(app, **bearer(token))

    assert (first.status_code, last.status_code, late.status_code) == (201, 201, 401)
    assert late.json()["error"] == "the token has expired"


async def test_what_was_refused_is_not_remembered(app: App, clock: ManualClock) -> None:
    token = ours(nbf=START + 60, exp=START + 600)
    early = await push(app, **bearer(token))

    clock.advance(60)
    in_time = await push(app, **bearer(token))

    assert (early.status_code, in_time.status_code) == (401, 201)


async def test_only_so_many_tokens_are_remembered(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "MAX_CACHED_TOKENS", 2)
    verifying = _Counting(from_secret(SECRET))
    door = CredentialCheck(tokens=_tokens(verifying, clock), now=lambda: seconds(clock))
    one, two, three = (f"Bearer {sign(sub=name)}".encode() for name in ("one", "two", "three"))

    for token in (one, two, three, three, one):
        await door.authenticate(Permission.PUSH, token, b"")

    assert verifying.asked == 4


async def test_a_token_that_differs_in_one_letter_is_another_token(app: App) -> None:
    token = ours()
    await push(app, **bearer(token))
    head, _, signature = token.rpartition(".")
    other = "A" if signature[5] != "A" else "B"

    answer = await push(app, **bearer(f"{head}.{signature[:5]}{other}{signature[6:]}"))

    assert answer.status_code == 401


# Nothing is told.


async def test_tokens_keys_and_secrets_are_in_no_log_and_no_answer(
    broker: Broker, clock: ManualClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = f"{CANARY} is a secret that is long enough"
    key = create_key(["monitor"])
    add_key(tmp_path / "keys.json", key.entry)
    app = make_app(broker, clock, jwt_secret=secret, api_keys=str(tmp_path / "keys.json"))
    shown = [
        sign(key=secret, role="monitor"),
        sign(key=secret, exp=START - 3600),
        sign(key=secret, role={CANARY: 1}),
        sign(sub=CANARY, headers={"kid": CANARY}),
        sign("RS256", headers={"jku": f"https://{CANARY}.example"}),
        key.text,
        f"skep_{key.entry.id}_{CANARY}",
        f"{CANARY}.{CANARY}.{CANARY}",
    ]

    answers = [await push(app, **bearer(each)) for each in shown]
    (tmp_path / "keys.json").write_text(f'[{{"id": "{CANARY}"}}]')
    clock.advance(CHECK_SECONDS)
    answers += [await push(app, x_api_key=key.text), await _fail(broker, clock, secret)]

    told = "\n".join([caplog.text, *(str(each.headers) + each.text for each in answers)])
    assert "could not reload API keys, keeping the previous ones" in told
    assert "request failed: method=GET route=/broken" in told
    assert CANARY not in told
    assert not [each for each in shown if each in told or each.rpartition(".")[2] in told]


async def _fail(broker: Broker, clock: ManualClock, secret: str) -> httpx.Response:
    """A request with a good token that the server has no answer to."""

    async def break_down(call: HttpRequest) -> HttpResponse:
        raise RuntimeError("this is a failure of the server")

    route = Route(
        method="GET",
        path="/broken",
        handler=break_down,
        needs=Permission.STATUS,
        queues=no_queue,
        summary="Fail.",
    )
    app = make_app(broker, clock, routes=[route], jwt_secret=secret)
    async with knock(app, **bearer(sign(key=secret))) as client:
        return await client.get("/broken")


def test_what_keeps_secrets_does_not_show_them(tmp_path: Path, key: NewKey) -> None:
    verifying = from_secret(SECRET)
    tokens = Tokens(SingleKey(verifying), Expected())
    keys = ApiKeys(tmp_path / "keys.json")

    shown = f"{tokens!r} {keys!r} {CredentialCheck(tokens=tokens, keys=keys)!r} {vars(tokens)!r}"

    assert SECRET not in shown
    assert SECRET not in repr(verifying)


def _open_route() -> Route:
    async def tell(call: HttpRequest) -> HttpResponse:
        return HttpResponse([call.principal.subject, call.principal.sees("orders")])

    return Route(
        method="GET",
        path="/health",
        handler=tell,
        needs=Permission.NONE,
        queues=no_queue,
        summary="Who asks.",
    )


class _Counting(SingleKey):
    """One key, and how often it was asked for."""

    asked = 0

    async def get(self, kid: str | None) -> VerifyingKey:
        self.asked += 1
        return await super().get(kid)


def _tokens(key: VerifyingKey | SingleKey, clock: ManualClock) -> Tokens:
    keys = key if isinstance(key, SingleKey) else SingleKey(key)
    return Tokens(keys, Expected(), now=lambda: seconds(clock))
