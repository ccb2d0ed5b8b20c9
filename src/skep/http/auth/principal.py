"""Permissions, the roles that bundle them, and the principal of a request."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from skep.errors import Forbidden
from skep.model.quota import Quota


class Permission(StrEnum):
    """What a route can require. A role is a set of permissions."""

    NONE = "none"
    """No credentials required."""
    SOME = "some"
    """Any of the others; the body decides which."""
    STATUS = "status"
    """See names and numbers, no payloads."""
    READ = "read"
    """See payloads without consuming them."""
    PUSH = "push"
    POP = "pop"
    """Pop, acknowledge, extend, record traces."""
    OPERATE = "operate"
    """Configure queues, move groups, replay dead letters."""
    ADMIN = "admin"
    """Delete queues and groups, maintenance."""


_BROWSE = frozenset({Permission.STATUS, Permission.READ})
_ALL = frozenset(Permission)

ROLES: dict[str, frozenset[Permission]] = {
    "monitor": frozenset({Permission.STATUS}),
    "reader": _BROWSE,
    "producer": frozenset({Permission.PUSH}),
    "consumer": frozenset({Permission.POP}),
    "operator": _BROWSE | {Permission.OPERATE},
    "admin": _ALL,
    # Queen's names for its three levels.
    "read-only": _BROWSE,
    "read-write": _ALL - {Permission.ADMIN},
}


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of a request. ``queues`` are exact names, or prefixes that end with ``*``; None
    means every queue. What is not granted is denied.

    ``quota`` limits what the principal may create and its request rate; None means no limits.
    ``id`` identifies the key, or the issuer and subject of the token; None without either.
    ``subject`` is recorded as the producer of messages: several principals may share one.
    """

    subject: str | None
    permissions: frozenset[Permission]
    queues: tuple[str, ...] | None = None
    id: str | None = None
    quota: Quota | None = None

    @property
    def holder(self) -> str | None:
        """The owner that leases are bound to; None without authentication.

        Tokens without a subject cannot be distinguished: their leases have one owner.
        """
        return None if self is FULL_ACCESS else self.id or "no subject"

    @property
    def restricted(self) -> bool:
        return self.queues is not None

    def sees(self, queue: str) -> bool:
        return self.queues is None or any(_matches(pattern, queue) for pattern in self.queues)

    def check(self, permission: Permission) -> None:
        if permission is Permission.NONE or permission in self.permissions:
            return
        if permission is not Permission.SOME or not self.permissions:
            raise Forbidden(f"this needs the permission {permission.value!r}")

    def check_queues(self, queues: Iterable[str]) -> None:
        if not all(map(self.sees, queues)):
            raise not_accessible()


def not_accessible() -> Forbidden:
    """The same error for every id outside the caller's queues: it must not reveal whether the id
    exists, or in which queue."""
    return Forbidden("it does not exist, or belongs to a queue that you may not access")


def permissions_of(roles: Iterable[str]) -> frozenset[Permission]:
    """The permissions of all roles together; an unknown role grants nothing."""
    return frozenset().union(*(ROLES.get(role, frozenset()) for role in roles))


FULL_ACCESS = Principal(None, _ALL)
"""Every caller of a server without authentication."""
NO_CREDENTIALS = Principal(None, frozenset(), ())
"""A caller without credentials of a server with authentication."""


def _matches(pattern: str, queue: str) -> bool:
    return queue.startswith(pattern[:-1]) if pattern.endswith("*") else queue == pattern
