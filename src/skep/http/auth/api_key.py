"""API keys: ``skep_<id>_<secret>``, of which the server keeps a hash only.

The secret has 256 bits of chance, so a plain hash is enough: there is nothing to guess, and a
slow one would only slow down those who know it.
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
from skep.http.auth.principal import NOBODY, ROLES, Principal, permissions_of
from skep.http.auth.private_file import check_unwritable
from skep.http.codec import decode_body
from skep.model.name import check_label, check_name
from skep.model.quota import Quota

PREFIX = "skep_"
CHECK_SECONDS = 5.0
"""How long a key that was revoked may go on working."""

_log = logging.getLogger("skep.http")


_SERVERS_QUOTA = Quota()
KeyId: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-z]{1,32}\Z")]


class ApiKey(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A key as it is kept. Without ``queues`` it is for all of them: so a misspelt field, which
    would widen what it allows, is an error."""

    id: KeyId
    hash: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    roles: tuple[str, ...]
    queues: tuple[str, ...] | None = None
    subject: str | None = None
    principal: KeyId | None = None
    """The id of the key that this one replaces: what belongs to that one belongs to this one."""
    quota: Quota = _SERVERS_QUOTA
    """Limits of its own, instead of those in the server's settings."""
    expires_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


@dataclass(frozen=True, slots=True)
class NewKey:
    """``text`` is for who will use the key, and cannot be had again; ``entry`` for the file."""

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
    """What the types do not say of an entry."""
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
        raise Invalid("api_keys", f"{path} is empty; without keys it would hold []")
    try:
        entries = decode_body(list[msgspec.Raw], content)
    except Invalid as error:
        raise Invalid("api_keys", f"{path}: {error.reason}") from None
    keys = tuple(_entry(index, raw) for index, raw in enumerate(entries))
    if len({key.id for key in keys}) < len(keys):
        raise Invalid("api_keys", f"{path}: an id is there twice")
    return keys


def _entry(index: int, raw: msgspec.Raw) -> ApiKey:
    try:
        key: ApiKey = decode_body(ApiKey, bytes(raw))
        check_key(key)
    except Invalid as error:
        raise error.within("api_keys", index) from None
    return key


class ApiKeys:
    """The keys of a file, which is looked at again now and then, when a key is used."""

    def __init__(self, path: Path, *, quota: Quota | None = None, now: Now = time.time) -> None:
        self._path = path
        self._quota = quota or Quota()
        self._now = now
        self._checked_at = now()
        self._seen = _look(path)
        self._keys = self._read()

    def verify(self, text: bytes) -> Principal:
        """Who has the key; raises ``Unauthenticated`` with a reason that shows none of it."""
        self._refresh()
        key_id, secret = _take_apart(text)
        key, principal = self._keys.get(key_id, _NONE)
        # Compared even if there is no such key: how long it takes tells nothing.
        if not hmac.compare_digest(_hash(secret), key.hash):
            raise Unauthenticated("the key is not known, or was revoked")
        if key.expires_at is not None and key.expires_at.timestamp() <= self._now():
            raise Unauthenticated("the key has expired")
        return principal

    def _read(self) -> dict[str, "_Known"]:
        return {key.id: _Known(key, self._principal(key)) for key in read_keys(self._path)}

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
        seen = _look(self._path)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._keys = self._read()
        except Invalid as error:
            _log.error("the keys stay as they were, because their file is broken: %s", error)
        else:
            _log.info("there are %d keys now", len(self._keys))


class _Known(NamedTuple):
    key: ApiKey
    principal: Principal


_NONE = _Known(ApiKey(id="none", hash="0" * 64, roles=()), NOBODY)
"""No secret that anybody could find has this hash, and it would allow nothing."""


def _hash(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _take_apart(text: bytes) -> tuple[str, str]:
    parts = text.decode("latin-1").removeprefix(PREFIX).split("_")
    if len(parts) != 2:
        raise Unauthenticated("the key does not have the form skep_<id>_<secret>")
    return parts[0], parts[1]


def _look(path: Path) -> tuple[int, int, int] | None:
    """What changes when a file does; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
