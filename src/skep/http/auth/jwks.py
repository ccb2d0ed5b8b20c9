"""The public keys of an identity provider (JWKS): fetched, cached and refreshed.

Clients must not be able to trigger fetches: an unknown key causes at most one fetch per interval.
While the provider is unreachable the cached keys stay valid; before the first successful fetch no
token is accepted.
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
"""How long keys are cached before they are fetched again."""
RETRY_SECONDS = 10.0
"""Minimum time between two fetches."""
TIMEOUT_SECONDS = 5.0
MAX_BYTES = 256 << 10

_log = logging.getLogger("skep.auth")


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
            raise Unauthenticated("the token does not name its key (kid)")
        if not self._knows(kid) or not self._is_recent(self._fetched_at, FRESH_SECONDS):
            await self._refresh(kid)
        if self._keys is None:
            raise Unavailable("the signing keys could not be fetched yet")
        if kid not in self._keys:
            raise Unauthenticated("the token is signed with an unknown key")
        return self._keys[kid]

    def _knows(self, kid: str) -> bool:
        return self._keys is not None and kid in self._keys

    def _is_recent(self, moment: float, seconds: float) -> bool:
        # A clock that was set back must not block fetching for that long.
        return 0 <= self._now() - moment < seconds

    async def _refresh(self, kid: str) -> None:
        """Fetch, or wait for a fetch under way; requests with a known key do not wait."""
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
        except (httpx.HTTPError, TimeoutError, _BadResponse) as error:
            why = str(error) if isinstance(error, _BadResponse) else type(error).__name__
            _log.warning("could not fetch signing keys: host=%s error=%s", self._host, why)
        else:
            self._fetched_at = self._now()

    async def _fetch(self) -> bytes:
        """The body, uncompressed: the size of compressed data cannot be bounded."""
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        async with (
            self._client() as client,
            client.stream("GET", self._url, headers=headers, follow_redirects=False) as response,
        ):
            if response.status_code != 200:
                raise _BadResponse(f"the response has status {response.status_code}")
            if response.headers.get("content-encoding", "identity") != "identity":
                raise _BadResponse("the response is compressed")
            body = b""
            async for part in response.aiter_raw():
                body += part
                if len(body) > MAX_BYTES:
                    raise _BadResponse(f"the response is larger than {MAX_BYTES} bytes")
            return body

    def _client(self) -> httpx.AsyncClient:
        # Environment proxies apply to https only: plain http must stay on this machine.
        outside = self._url.startswith("https:")
        return httpx.AsyncClient(
            transport=self._transport, timeout=self._timeout, trust_env=outside
        )


class _BadResponse(Exception):
    """The response is not a set of keys."""


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
    raise Invalid("jwt_jwks_url", "must begin with https://; http:// only for this machine")


class _KeySet(msgspec.Struct, frozen=True):
    keys: list[dict[str, Any]]


def _decode(body: bytes) -> dict[str, VerifyingKey]:
    """The usable keys by id. An empty set is valid: all keys were withdrawn."""
    try:
        published = msgspec.json.decode(body, type=_KeySet)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise _BadResponse("the response is not a set of keys") from None
    found = ((each.get("kid"), _to_key(each)) for each in published.keys)
    return {kid: key for kid, key in found if isinstance(kid, str) and key is not None}


def _to_key(published: dict[str, Any]) -> VerifyingKey | None:
    """A verifying key; None for secrets, unsupported kinds and encryption keys."""
    try:
        key = to_verifying_key(jwt.PyJWK(published).key)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if key is None or published.get("alg", key.algorithm) != key.algorithm:
        return None
    return key if published.get("use", "sig") == "sig" else None
