"""Tokens as an issuer would sign them, and as somebody would who should not."""

import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import OKPAlgorithm, RSAAlgorithm

from skep.model.name import SECOND
from skep.testing.clock import NOON, ManualClock

SECRET = "a secret of the tests that has enough bytes"
RSA = generate_private_key(65537, 2048)
OTHER_RSA = generate_private_key(65537, 2048)
ED25519 = Ed25519PrivateKey.generate()

_SIGNERS: dict[str, Any] = {"HS256": SECRET, "RS256": RSA, "EdDSA": ED25519}
START = NOON // SECOND
"""When the clock of the tests starts, in seconds since 1970."""


def claims(**other: Any) -> dict[str, Any]:
    """Good for a minute; None leaves a claim out."""
    given = {"sub": "alice", "exp": START + 60, "role": "admin"} | other
    return {name: value for name, value in given.items() if value is not None}


ALICE = "token:" + hashlib.sha256(b'[null,"alice"]').hexdigest()
"""The id of the principal that has a token without an issuer."""


def sign(algorithm: str = "HS256", *, key: Any = None, headers: Any = None, **other: Any) -> str:
    """A token with the claims of ``claims``."""
    signer = _SIGNERS[algorithm] if key is None else key
    return jwt.encode(claims(**other), signer, algorithm, headers=headers)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def seconds(clock: ManualClock) -> float:
    return clock.now() / SECOND


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def part(value: object) -> str:
    return base64url(json.dumps(value).encode())


def sign_parts(header: object, payload: str, *, key: bytes = SECRET.encode()) -> str:
    """A token with an HMAC, for what no library would sign."""
    signed = f"{part(header)}.{payload}"
    mac = hmac.new(key, signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64url(mac)}"


def sign_claims(given: object) -> str:
    return sign_parts({"alg": "HS256"}, part(given))


def pem(key: RSAPrivateKey | Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def write_pem(path: Path, key: RSAPrivateKey | Ed25519PrivateKey) -> str:
    path.write_bytes(pem(key))
    return str(path)


def published(kid: str, key: RSAPrivateKey | Ed25519PrivateKey, **other: Any) -> dict[str, Any]:
    """The public part of a key as a provider publishes it."""
    if isinstance(key, RSAPrivateKey):
        found = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    else:
        found = OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {**found, "kid": kid, **other}
