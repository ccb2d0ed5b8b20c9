"""What one principal may create, and how often it may ask."""

from typing import Annotated, TypeAlias

import msgspec

Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]


class Quota(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Limits on what exists in the queues that a principal may use, whoever created it.

    ``staged_bytes`` is what waits for the commit of a sink, ``requests`` is per second at each
    server. 0 is no limit; None leaves it to the server's settings.
    """

    queues: Limit | None = None
    partitions: Limit | None = None
    groups: Limit | None = None
    readers: Limit | None = None
    staged_bytes: Limit | None = None
    requests: Limit | None = None

    def or_else(self, default: "Quota") -> "Quota":
        """This quota, with the limits of ``default`` where it has none of its own."""
        limits = {
            name: getattr(default if getattr(self, name) is None else self, name)
            for name in self.__struct_fields__
        }
        return Quota(**limits)
