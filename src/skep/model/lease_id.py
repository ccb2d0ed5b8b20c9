"""Lease ids: random, and bound to the principal that took the lease.

The second half of an id is a digest of its first half and the principal. So every server can tell
whose lease it is, also after a restart, and nobody else can make an id of it that would be his.
"""

from hashlib import blake2b
from uuid import uuid4

from skep.model.name import LeaseId

_HALF = len("00000000-0000-4000-")


def new_lease_id(principal: str | None) -> LeaseId:
    """An id for a lease of a principal; None if there is no need to tell them apart."""
    chosen = str(uuid4())
    if principal is None:
        return LeaseId(chosen)
    return LeaseId(chosen[:_HALF] + _second_half(chosen[:_HALF], principal))


def is_bound(lease_id: LeaseId, principal: str) -> bool:
    """Whether the lease was taken by the principal."""
    return lease_id[_HALF:] == _second_half(lease_id[:_HALF], principal)


def worker_id_of(lease_id: LeaseId) -> str:
    """What stands for a lease where it is shown: nobody can settle it with this."""
    return blake2b(lease_id.encode(), digest_size=16).hexdigest()


def _second_half(first: str, principal: str) -> str:
    """Written as that of a random UUID."""
    digest = blake2b((first + principal).encode(), digest_size=8).hexdigest()
    return f"a{digest[1:4]}-{digest[4:]}"
