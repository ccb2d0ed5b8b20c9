"""The keys that an identity provider publishes (JWKS): fetched, kept, and fetched again.

Who sends tokens must not be able to make us fetch: a key that is not known is looked for once in
a while, however many ask. While the provider is away the keys that are known go on working;
before it has answered for the first time, no token does.
"""

import asyncio
import logging
import time
from typing import Any

import httpx
import jwt
import msgspec

from skep.errors import Invalid, Unauthenticated, Unavailable
from skep.http.auth.jwt import Now, VerifyingKey, to_verifying_key
from skep.http.auth.loopback import is_loopback

FRESH_SECONDS = 600.0
"""How long keys are kept before we ask whether they are still the ones."""
RETRY_SECONDS = 10.0
"""The least time between two fetches, for whatever reason."""
TIMEOUT_SECONDS = 5.0
MAX_BYTES = 256 << 10

_log = logging.getLogger("skep.http")


class PublishedKeys:
    def __init__(
        self,
        url: str,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        timeout: float = TIMEOUT_SECONDS,
        now: Now = time.time,
    ) -> None:
        self._host = check_url(url)
        self._url = url
        self._transport = transport
        self._timeout = timeout
        self._now = now
        self._keys: dict[str, VerifyingKey] | None = None
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching = asyncio.Lock()

    async def get(self, kid: str | None) -> VerifyingKey:
        if kid is None:
            raise Unauthenticated("the token does not say which key signed it (kid)")
        if not self._knows(kid) or not self._is_recent(self._fetched_at, FRESH_SECONDS):
            await self._refresh(kid)
        if self._keys is None:
            raise Unavailable("the keys that tokens are signed with could not be fetched yet")
        if kid not in self._keys:
            raise Unauthenticated("the token is signed with a key that is not known")
        return self._keys[kid]

    def _knows(self, kid: str) -> bool:
        return self._keys is not None and kid in self._keys

    def _is_recent(self, moment: float, seconds: float) -> bool:
        # A clock that was set back must not stop us for as long as it went back.
        return 0 <= self._now() - moment < seconds

    async def _refresh(self, kid: str) -> None:
        """Fetch, or wait for who fetches already; whose key is known does not wait."""
        if self._fetching.locked() and self._knows(kid):
            return
        async with self._fetching:
            if not self._is_recent(self._tried_at, RETRY_SECONDS):
                self._tried_at = self._now()
                await self._replace()

    async def _replace(self) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                self._keys = _decode(await self._fetch())
        except (httpx.HTTPError, TimeoutError, _Unusable) as error:
            why = str(error) if isinstance(error, _Unusable) else type(error).__name__
            _log.warning("the keys of %s could not be fetched: %s", self._host, why)
        else:
            self._fetched_at = self._now()

    async def _fetch(self) -> bytes:
        """The body, not compressed: what unpacks to more than it seems cannot be bounded."""
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        async with (
            self._client() as client,
            client.stream("GET", self._url, headers=headers, follow_redirects=False) as response,
        ):
            if response.status_code != 200:
                raise _Unusable(f"the answer has status {response.status_code}")
            if response.headers.get("content-encoding", "identity") != "identity":
                raise _Unusable("the answer is compressed")
            body = b""
            async for part in response.aiter_raw():
                body += part
                if len(body) > MAX_BYTES:
                    raise _Unusable(f"the answer is larger than {MAX_BYTES} bytes")
            return body

    def _client(self) -> httpx.AsyncClient:
        # A proxy of the environment is for the world outside: who is in the clear stays here.
        outside = self._url.startswith("https:")
        return httpx.AsyncClient(
            transport=self._transport, timeout=self._timeout, trust_env=outside
        )


class _Unusable(Exception):
    """What came is not a set of keys."""


def check_url(text: str) -> str:
    """The host of a URL that keys may be fetched from."""
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        raise Invalid("jwt_jwks_url", "is not a valid URL") from None
    if url.userinfo:
        raise Invalid("jwt_jwks_url", "must not contain a user or a password")
    if url.host and (url.scheme == "https" or (url.scheme == "http" and is_loopback(url.host))):
        return url.host
    raise Invalid("jwt_jwks_url", "must begin with https://; http:// is for this machine only")


class _KeySet(msgspec.Struct, frozen=True):
    keys: list[dict[str, Any]]


def _decode(body: bytes) -> dict[str, VerifyingKey]:
    """The keys that we can use, by id. A set without any is an answer too: they were withdrawn."""
    try:
        published = msgspec.json.decode(body, type=_KeySet)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise _Unusable("the answer is not a set of keys") from None
    found = ((each.get("kid"), _to_key(each)) for each in published.keys)
    return {kid: key for kid, key in found if isinstance(kid, str) and key is not None}


def _to_key(published: dict[str, Any]) -> VerifyingKey | None:
    """None for what is not ours to verify with: secrets, other kinds, keys for encryption."""
    try:
        key = to_verifying_key(jwt.PyJWK(published).key)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if key is None or published.get("alg", key.algorithm) != key.algorithm:
        return None
    return key if published.get("use", "sig") == "sig" else None
