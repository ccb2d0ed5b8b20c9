"""Authentication: from a token or an API key to a principal."""

import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import httpx

from skep.errors import Invalid, Unauthenticated
from skep.http.auth.api_key import PREFIX, ApiKeys
from skep.http.auth.jwks import PublishedKeys
from skep.http.auth.jwt import (
    Expected,
    Now,
    SingleKey,
    Tokens,
    Verified,
    VerifyingKeys,
    from_pem,
    from_secret,
)
from skep.http.auth.principal import FULL_ACCESS, NO_CREDENTIALS, Permission, Principal
from skep.settings import Settings

MAX_SKEW = 60
MAX_CACHED_TOKENS = 4096
CACHE_SECONDS = 60.0
"""Bounds how long tokens are accepted after the provider has withdrawn their key."""


class Authenticator(Protocol):
    async def authenticate(
        self, needs: Permission, authorization: bytes, api_key: bytes
    ) -> Principal:
        """The principal of a request; raises ``Unauthenticated`` if its credentials are not valid.

        A route that needs no permission accepts requests without credentials.
        """
        ...


class AllowAll:
    """No authentication: every caller has all permissions. For servers that only trusted clients
    reach."""

    async def authenticate(
        self, needs: Permission, authorization: bytes, api_key: bytes
    ) -> Principal:
        return FULL_ACCESS


class CredentialCheck:
    """Verifies a token or an API key; a credential that begins with ``skep_`` is an API key."""

    def __init__(
        self, *, tokens: Tokens | None = None, keys: ApiKeys | None = None, now: Now = time.time
    ) -> None:
        self._tokens = tokens
        self._keys = keys
        self._token_cache = _TokenCache(now)

    async def authenticate(
        self, needs: Permission, authorization: bytes, api_key: bytes
    ) -> Principal:
        credential = _credential(authorization, api_key)
        if credential:
            return await self._verify(credential)
        if needs is Permission.NONE:
            return NO_CREDENTIALS
        raise Unauthenticated(
            "authentication required: send 'Authorization: Bearer …' or 'X-API-Key: …'"
        )

    async def _verify(self, credential: bytes) -> Principal:
        if credential.startswith(PREFIX.encode()):
            return self._verify_key(credential)
        if self._tokens is None:
            raise Unauthenticated(f"this server accepts keys that begin with {PREFIX}, not tokens")
        return self._token_cache.find(credential) or self._token_cache.keep(
            credential, await self._tokens.verify(credential)
        )

    def _verify_key(self, credential: bytes) -> Principal:
        if self._keys is None:
            raise Unauthenticated("this server accepts tokens, not API keys")
        return self._keys.verify(credential)


class _TokenCache:
    """Recently verified tokens: verifying a signature takes longer than a push.

    Only their hashes are kept, so that no token can be read from the server's memory.
    """

    def __init__(self, now: Now) -> None:
        self._now = now
        self._verified: dict[bytes, Verified] = {}

    def find(self, token: bytes) -> Principal | None:
        digest = sha256(token).digest()
        cached = self._verified.get(digest)
        if cached is None:
            return None
        if cached.good_until <= self._now():
            del self._verified[digest]
            return None
        return cached.principal

    def keep(self, token: bytes, verified: Verified) -> Principal:
        if len(self._verified) >= MAX_CACHED_TOKENS:
            del self._verified[next(iter(self._verified))]
        good_until = min(verified.good_until, self._now() + CACHE_SECONDS)
        self._verified[sha256(token).digest()] = Verified(verified.principal, good_until)
        return verified.principal


def _credential(authorization: bytes, api_key: bytes) -> bytes:
    """The credential without its scheme; empty if there is none.

    Queen's clients may send a token without ``Bearer``.
    """
    if authorization and api_key:
        raise Unauthenticated("send either a token or an API key, not both")
    if api_key and not api_key.startswith(PREFIX.encode()):
        raise Unauthenticated(f"X-API-Key must begin with {PREFIX}")
    scheme, space, rest = authorization.partition(b" ")
    if space and scheme.lower() != b"bearer":
        raise Unauthenticated("Authorization must be 'Bearer …'")
    return api_key or (rest if space else scheme).strip()


def build_authenticator(
    settings: Settings,
    *,
    transport: httpx.AsyncBaseTransport | None = None,
    now: Now = time.time,
) -> Authenticator:
    """The authenticator for these settings; raises ``Invalid`` with the name of the wrong
    setting."""
    _check(settings)
    if not settings.authenticated:
        return AllowAll()
    signers = _signers(settings, transport, now)
    return CredentialCheck(
        tokens=None if signers is None else Tokens(signers, _expected(settings), now=now),
        keys=ApiKeys(Path(settings.api_keys), quota=settings.quota, now=now)
        if settings.api_keys
        else None,
        now=now,
    )


def _check(settings: Settings) -> None:
    given = _tokens_given(settings)
    if len(given) > 1:
        raise Invalid(list(given)[1], f"cannot be used together with {next(iter(given))}")
    for name in ("jwt_issuer", "jwt_audience"):
        if getattr(settings, name) is not None and not given:
            raise Invalid(name, "has no effect without jwt_secret, jwt_public_key or jwt_jwks_url")
    if not 0 <= settings.jwt_clock_skew <= MAX_SKEW:
        raise Invalid(
            "jwt_clock_skew", f"must be from 0 to {MAX_SKEW}, not {settings.jwt_clock_skew}"
        )


def _tokens_given(settings: Settings) -> Mapping[str, str]:
    """The settings that say how tokens are signed. With two of them a token could choose."""
    names = ("jwt_secret", "jwt_public_key", "jwt_jwks_url")
    return {name: value for name in names if (value := getattr(settings, name)) is not None}


def _signers(
    settings: Settings, transport: httpx.AsyncBaseTransport | None, now: Now
) -> VerifyingKeys | None:
    if settings.jwt_secret is not None:
        return SingleKey(from_secret(settings.jwt_secret))
    if settings.jwt_public_key is not None:
        return SingleKey(from_pem(settings.jwt_public_key))
    if settings.jwt_jwks_url is not None:
        return PublishedKeys(settings.jwt_jwks_url, transport=transport, now=now)
    return None


def _expected(settings: Settings) -> Expected:
    return Expected(
        issuer=settings.jwt_issuer,
        audience=settings.jwt_audience,
        skew=settings.jwt_clock_skew,
        roles_claim=settings.jwt_roles_claim,
        quota=settings.quota,
    )
