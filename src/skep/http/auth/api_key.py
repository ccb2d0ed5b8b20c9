"""API keys: ``skep_<id>_<secret>``. The server stores a hash of the secret.

The secret has 256 random bits, so a plain hash is enough: it cannot be guessed, and a slow hash
would only slow down valid requests.
"""

import hmac
import logging
import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated, NamedTuple, TypeAlias

import msgspec

from skep.errors import Invalid, Unauthenticated
from skep.http.auth.jwt import Now
from skep.http.auth.principal import NO_CREDENTIALS, ROLES, Principal, permissions_of
from skep.http.auth.private_file import check_unwritable
from skep.http.codec import decode_body
from skep.model.name import check_label, check_name
from skep.model.quota import Quota

PREFIX = "skep_"
CHECK_SECONDS = 5.0
"""Maximum time that a revoked key is still accepted."""

_log = logging.getLogger("skep.auth")


_SERVERS_QUOTA = Quota()
KeyId: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-z]{1,32}\Z")]


class ApiKey(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A stored key. Without ``queues`` it applies to all queues, so an unknown field is an error: a
    misspelt one would widen the key's rights."""

    id: KeyId
    hash: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    roles: tuple[str, ...]
    queues: tuple[str, ...] | None = None
    subject: str | None = None
    principal: KeyId | None = None
    """The id of the key that this one replaces; it inherits what that key owns."""
    quota: Quota = _SERVERS_QUOTA
    """Limits of this key; they take precedence over the server's settings."""
    expires_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


@dataclass(frozen=True, slots=True)
class NewKey:
    """``text`` goes to the key's user and cannot be recovered; ``entry`` goes into the file."""

    text: str = field(repr=False)
    entry: ApiKey


def create_key(
    roles: Sequence[str],
    *,
    queues: Sequence[str] | None = None,
    subject: str | None = None,
    principal: str | None = None,
    quota: Quota = _SERVERS_QUOTA,
    expires_at: datetime | None = None,
) -> NewKey:
    key_id, secret = secrets.token_hex(6), secrets.token_hex(32)
    entry = ApiKey(
        id=key_id,
        hash=_hash(secret),
        roles=tuple(roles),
        queues=None if queues is None else tuple(queues),
        subject=subject,
        principal=principal,
        quota=quota,
        expires_at=expires_at,
    )
    check_key(entry)
    return NewKey(f"{PREFIX}{key_id}_{secret}", entry)


def check_key(key: ApiKey) -> None:
    """Raise ``Invalid`` for an entry that the types allow but the rules do not."""
    for role in key.roles:
        if role not in ROLES:
            raise Invalid("roles", f"{role!r} is not one of {', '.join(ROLES)}")
    if not key.roles:
        raise Invalid("roles", "must not be empty")
    for queue in key.queues or ():
        check_name("queues", queue)
    check_label("subject", key.subject)
    if key.expires_at is not None and key.expires_at.utcoffset() is None:
        raise Invalid("expires_at", "must have a time zone")


def read_keys(path: Path) -> tuple[ApiKey, ...]:
    """The entries of a file; an error names the entry and the field."""
    check_unwritable("api_keys", path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Invalid("api_keys", f"{path} cannot be read: {error.strerror}") from None
    if not content.strip():
        raise Invalid("api_keys", f"{path} is empty; without keys it must contain []")
    try:
        entries = decode_body(list[msgspec.Raw], content)
    except Invalid as error:
        raise Invalid("api_keys", f"{path}: {error.reason}") from None
    keys = tuple(_entry(index, raw) for index, raw in enumerate(entries))
    if len({key.id for key in keys}) < len(keys):
        raise Invalid("api_keys", f"{path}: duplicate key id")
    return keys


def _entry(index: int, raw: msgspec.Raw) -> ApiKey:
    try:
        key: ApiKey = decode_body(ApiKey, bytes(raw))
        check_key(key)
    except Invalid as error:
        raise error.within("api_keys", index) from None
    return key


class ApiKeys:
    """The keys of a file, which is reloaded within seconds after it changed."""

    def __init__(self, path: Path, *, quota: Quota | None = None, now: Now = time.time) -> None:
        self._path = path
        self._quota = quota or Quota()
        self._now = now
        self._checked_at = now()
        self._seen = _file_version(path)
        self._keys = self._read()

    def verify(self, text: bytes) -> Principal:
        """The principal of a key; raises ``Unauthenticated`` without revealing any part of the
        key."""
        self._refresh()
        key_id, secret = _split(text)
        key, principal = self._keys.get(key_id, _NO_KEY)
        # Compared even for an unknown id, so that the time taken reveals nothing.
        if not hmac.compare_digest(_hash(secret), key.hash):
            raise Unauthenticated("unknown or revoked API key")
        if key.expires_at is not None and key.expires_at.timestamp() <= self._now():
            raise Unauthenticated("the API key has expired")
        return principal

    def _read(self) -> dict[str, "_StoredKey"]:
        return {key.id: _StoredKey(key, self._principal(key)) for key in read_keys(self._path)}

    def _principal(self, key: ApiKey) -> Principal:
        return Principal(
            key.subject or None,
            permissions_of(key.roles),
            key.queues,
            id=f"key:{key.principal or key.id}",
            quota=key.quota.or_else(self._quota),
        )

    def _refresh(self) -> None:
        # A clock that was set back counts as time that has passed.
        if 0 <= self._now() - self._checked_at < CHECK_SECONDS:
            return
        self._checked_at = self._now()
        seen = _file_version(self._path)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._keys = self._read()
        except Invalid as error:
            _log.error("could not reload API keys, keeping the previous ones: error=%s", error)
        else:
            _log.info("reloaded API keys: active=%d", len(self._keys))


class _StoredKey(NamedTuple):
    key: ApiKey
    principal: Principal


_NO_KEY = _StoredKey(ApiKey(id="none", hash="0" * 64, roles=()), NO_CREDENTIALS)
"""Matches no secret, and grants nothing."""


def _hash(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _split(text: bytes) -> tuple[str, str]:
    parts = text.decode("latin-1").removeprefix(PREFIX).split("_")
    if len(parts) != 2:
        raise Unauthenticated("an API key has the form skep_<id>_<secret>")
    return parts[0], parts[1]


def _file_version(path: Path) -> tuple[int, int, int] | None:
    """What identifies a version of the file; None if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
