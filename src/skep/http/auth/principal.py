"""Who may do what: permissions, the roles that bundle them, and who asks."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from skep.errors import Forbidden
from skep.model.quota import Quota


class Permission(StrEnum):
    """What a route can need. A role is a set of these."""

    NONE = "none"
    """Everybody may, also without a token."""
    SOME = "some"
    """Any of the others; which, depends on what the body asks for."""
    STATUS = "status"
    """See names and numbers, no payloads."""
    READ = "read"
    """See payloads without consuming them."""
    PUSH = "push"
    POP = "pop"
    """Pop, acknowledge, extend, record traces."""
    OPERATE = "operate"
    """Configure queues, move groups, send dead letters back."""
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
    # Queen's own names for its three levels.
    "read-only": _BROWSE,
    "read-write": _ALL - {Permission.ADMIN},
}


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. ``queues`` are exact names, or beginnings of names with a ``*`` behind; None
    means every queue. What is not granted is denied.

    ``quota`` limits what it may create and how often it may ask; None means no limits.
    ``id`` identifies the key, or the issuer and subject of the token; None if there is neither.
    ``subject`` is what messages are marked with: different principals may have the same.
    """

    subject: str | None
    permissions: frozenset[Permission]
    queues: tuple[str, ...] | None = None
    id: str | None = None
    quota: Quota | None = None

    @property
    def holder(self) -> str | None:
        """Whom a lease is bound to; None where authentication is off.

        Tokens without a subject cannot be told apart: to leases they are one holder.
        """
        return None if self is ANYBODY else self.id or "no subject"

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
            raise not_yours()


def not_yours() -> Forbidden:
    """What a principal for some queues is told of every id that is not of these queues: whether
    there is something else of this id, and of which queue, it may not learn."""
    return Forbidden("this is not there, or is about a queue that is not one of yours")


def permissions_of(roles: Iterable[str]) -> frozenset[Permission]:
    """What roles allow together; a role that is not ours allows nothing."""
    return frozenset().union(*(ROLES.get(role, frozenset()) for role in roles))


ANYBODY = Principal(None, _ALL)
"""Who asks where authentication is off."""
NOBODY = Principal(None, frozenset(), ())
"""Who asks without a token or a key where authentication is on."""


def _matches(pattern: str, queue: str) -> bool:
    return queue.startswith(pattern[:-1]) if pattern.endswith("*") else queue == pattern
