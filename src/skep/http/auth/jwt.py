"""JSON Web Tokens: verifies the signature and validity of a token, and reads its permissions.

The key decides the algorithm, never the token. A token may not contain its own key or a URL of one.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from skep.errors import Invalid, Unauthenticated
from skep.http.auth.principal import Principal, permissions_of
from skep.model.name import check_label
from skep.model.quota import Quota

Now: TypeAlias = Callable[[], float]
"""Seconds since 1970."""

MAX_BYTES = 8 << 10
MIN_SECRET_BYTES = 32
MIN_RSA_BITS = 2048
_FORBIDDEN_HEADERS = ("crit", "jku", "jwk", "x5c", "x5u")
"""Headers that ask for more than a signature check. No extension is supported, so none may be
critical."""

_signatures = jwt.PyJWS(algorithms=["HS256", "RS256", "EdDSA"])


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    algorithm: str
    key: bytes | RSAPublicKey | Ed25519PublicKey = field(repr=False)


class VerifyingKeys(Protocol):
    async def get(self, kid: str | None) -> VerifyingKey:
        """The key with an id; raises ``Unauthenticated`` if there is none."""
        ...


class SingleKey:
    """The same key for every token, whatever id it names."""

    def __init__(self, key: VerifyingKey) -> None:
        self._key = key

    async def get(self, kid: str | None) -> VerifyingKey:
        return self._key


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a token must contain, besides an expiry. ``skew`` is in seconds."""

    issuer: str | None = None
    audience: str | None = None
    skew: int = 30
    roles_claim: str = "roles"
    quota: Quota | None = None
    """The quota of every principal with a token."""


class Verified(NamedTuple):
    principal: Principal
    good_until: float


class _Claims(msgspec.Struct, frozen=True, kw_only=True):
    """Absent is not null: ``"queues": null`` must not mean every queue."""

    exp: float
    nbf: float | msgspec.UnsetType = msgspec.UNSET
    iss: str | msgspec.UnsetType = msgspec.UNSET
    aud: str | tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    sub: str | msgspec.UnsetType = msgspec.UNSET
    queues: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


class Tokens:
    def __init__(self, keys: VerifyingKeys, expected: Expected, *, now: Now = time.time) -> None:
        self._keys = keys
        self._expected = expected
        self._now = now

    async def verify(self, token: bytes) -> Verified:
        """The principal of a token; raises ``Unauthenticated`` without revealing any part of the
        token."""
        if len(token) > MAX_BYTES:
            raise Unauthenticated(f"the token is larger than {MAX_BYTES} bytes")
        key = await self._keys.get(_kid(token))
        raw = _payload(token, key)
        claims = _decode_claims(raw)
        self._check_times(claims)
        self._check_parties(claims)
        subject = _subject(claims)
        principal = Principal(
            subject,
            permissions_of(_roles(raw, "role") + _roles(raw, self._expected.roles_claim)),
            None if claims.queues is msgspec.UNSET else claims.queues,
            id=None if subject is None else _principal_id(claims, subject),
            quota=self._expected.quota,
        )
        return Verified(principal, claims.exp + self._expected.skew)

    def _check_times(self, claims: _Claims) -> None:
        now, skew = self._now(), self._expected.skew
        if claims.exp + skew <= now:
            raise Unauthenticated("the token has expired")
        if claims.nbf is not msgspec.UNSET and claims.nbf - skew > now:
            raise Unauthenticated("the token is not valid yet")

    def _check_parties(self, claims: _Claims) -> None:
        expected = self._expected
        if expected.issuer is not None and claims.iss != expected.issuer:
            raise Unauthenticated("the token has the wrong issuer")
        audience = (claims.aud,) if isinstance(claims.aud, str) else claims.aud or ()
        if expected.audience is not None and expected.audience not in audience:
            raise Unauthenticated("the token has the wrong audience")


def from_secret(secret: str) -> VerifyingKey:
    key = secret.encode()
    if len(key) < MIN_SECRET_BYTES:
        raise Invalid("jwt_secret", f"must have at least {MIN_SECRET_BYTES} bytes, not {len(key)}")
    try:
        _signatures.get_algorithm_by_name("HS256").prepare_key(key)
    except jwt.InvalidKeyError:
        raise Invalid("jwt_secret", "is a public key; pass its file as jwt_public_key") from None
    return VerifyingKey("HS256", key)


def from_pem(path: str) -> VerifyingKey:
    """The key in a PEM file; its kind decides the algorithm."""
    try:
        key = load_pem_public_key(Path(path).read_bytes())
    except OSError as error:
        raise Invalid("jwt_public_key", f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise Invalid("jwt_public_key", f"{path} contains no public key in PEM format") from None
    verifying_key = to_verifying_key(key)
    if verifying_key is None:
        raise Invalid(
            "jwt_public_key",
            f"must be an RSA key of at least {MIN_RSA_BITS} bits, or an Ed25519 key",
        )
    return verifying_key


def to_verifying_key(key: object) -> VerifyingKey | None:
    """A public key with its algorithm; None if the algorithm is not supported."""
    if isinstance(key, RSAPublicKey) and key.key_size >= MIN_RSA_BITS:
        return VerifyingKey("RS256", key)
    if isinstance(key, Ed25519PublicKey):
        return VerifyingKey("EdDSA", key)
    return None


def _kid(token: bytes) -> str | None:
    try:
        header = _signatures.get_unverified_header(token)
    except jwt.InvalidTokenError:
        raise Unauthenticated("the token is not a valid JSON Web Token") from None
    for name in _FORBIDDEN_HEADERS:
        if name in header:
            raise Unauthenticated(f"the token header {name!r} is not allowed")
    kid: str | None = header.get("kid")
    return kid


def _payload(token: bytes, key: VerifyingKey) -> dict[str, Any]:
    """The claims of a token whose signature is valid."""
    try:
        signed = _signatures.decode(token, key.key, algorithms=[key.algorithm])
        return msgspec.json.decode(signed, type=dict[str, Any])
    except jwt.InvalidAlgorithmError:
        raise Unauthenticated("the token's algorithm is not this server's") from None
    except jwt.InvalidSignatureError:
        raise Unauthenticated("the token's signature is invalid") from None
    except (jwt.InvalidTokenError, msgspec.DecodeError, ValueError, RecursionError):
        raise Unauthenticated("the token is not a valid JSON Web Token") from None


def _decode_claims(claims: dict[str, Any]) -> _Claims:
    try:
        return msgspec.convert(claims, _Claims)
    except msgspec.ValidationError as error:
        # The message names the claim and its type, not its value.
        raise Unauthenticated(f"invalid token claims: {error}") from None


def _subject(claims: _Claims) -> str | None:
    """The subject; None if it is empty. Rejects one that could not be stored with a message."""
    subject = None if claims.sub is msgspec.UNSET else claims.sub or None
    try:
        return check_label("sub", subject)
    except Invalid as error:
        raise Unauthenticated(f"invalid token claims: {error}") from None


def _principal_id(claims: _Claims, subject: str) -> str:
    """A digest, because an issuer may be long; of JSON, so that no two pairs are equal."""
    issuer = None if claims.iss is msgspec.UNSET else claims.iss
    return f"token:{sha256(msgspec.json.encode([issuer, subject])).hexdigest()}"


def _roles(claims: dict[str, Any], name: str) -> tuple[str, ...]:
    try:
        roles = msgspec.convert(claims.get(name, ()), str | tuple[str, ...])
    except msgspec.ValidationError:
        raise Unauthenticated(
            f"invalid token claims: {name!r} must be a string or a list of strings"
        ) from None
    return (roles,) if isinstance(roles, str) else roles
