"""Payloads at rest: AES-256-GCM, each under a key that its envelope names.

    1 byte    1 byte           key id    12 bytes    the rest
    version   length of key id           nonce       ciphertext and tag

The queue, the partition and the transaction id are authenticated with it, so that a payload
cannot be moved to another place unnoticed.
"""

import os
from collections.abc import Mapping
from typing import Protocol

import msgspec

from skep.errors import DecryptionFailed, EncryptionUnavailable, Invalid
from skep.model.name import check_name

VERSION = 1
_NONCE = 12
_ADVICE = "add it to the file of SKEP_ENCRYPTION_KEYS (or to keys of skep.open) and start again"


class _Cipher(Protocol):
    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes: ...
    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes: ...


class KeyRing:
    """Keys by id. The ``current`` one encrypts; all of them decrypt.

    To rotate, add a key and make it the current one; take the old one away when retention
    has removed what it encrypted. A ring without keys refuses to encrypt: nothing is ever
    stored in the clear instead.
    """

    def __init__(self, keys: Mapping[str, bytes] | None = None, *, current: str | None = None):
        keys = dict(keys or {})
        for key_id, key in keys.items():
            check_name("key id", key_id)
            if not isinstance(key, bytes) or len(key) != 32:
                raise Invalid(f"key {key_id!r}", "must have 32 bytes")
        if (keys or current is not None) and current not in keys:
            raise Invalid("current", f"{current!r} is not a key of the ring")
        self._ciphers = {key_id: _cipher(key) for key_id, key in keys.items()}
        self._current = current

    def check(self, queue: str) -> None:
        """Raise ``EncryptionUnavailable`` if nothing can be encrypted."""
        if self._current is None:
            raise EncryptionUnavailable(
                f"queue {queue!r} is encrypted, but no key is configured; {_ADVICE}"
            )

    def encrypt(self, payload: bytes, place: bytes) -> bytes:
        if self._current is None:
            raise EncryptionUnavailable(f"no key is configured; {_ADVICE}")
        key_id = self._current.encode()
        nonce = os.urandom(_NONCE)
        head = bytes([VERSION, len(key_id)]) + key_id
        sealed = self._ciphers[self._current].encrypt(nonce, payload, head + place)
        return head + nonce + sealed

    def decrypt(self, envelope: bytes, place: bytes) -> bytes:
        if len(envelope) < 2 or envelope[0] != VERSION:
            raise DecryptionFailed("its envelope has an unknown format")
        body = 2 + envelope[1]
        key_id = envelope[2:body].decode(errors="replace")
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise EncryptionUnavailable(f"key {key_id!r} is not in the key ring; {_ADVICE}")
        nonce, sealed = envelope[body : body + _NONCE], envelope[body + _NONCE :]
        try:
            return cipher.decrypt(nonce, sealed, envelope[:body] + place)
        except Exception:
            raise DecryptionFailed("it was altered, or moved from another message") from None

    def __repr__(self) -> str:
        return f"KeyRing({sorted(self._ciphers)}, current={self._current!r})"


def place_of(queue: str, partition: str, transaction_id: str) -> bytes:
    """What a payload is bound to, without a way for one name to run into the next."""
    return msgspec.msgpack.encode((queue, partition, transaction_id))


def _cipher(key: bytes) -> _Cipher:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # an extra
    except ImportError:
        raise EncryptionUnavailable("install skep[encryption] to use a key ring") from None
    return AESGCM(key)
