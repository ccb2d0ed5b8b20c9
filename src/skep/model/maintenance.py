"""What a server does not do for a while."""

import msgspec


class MaintenanceState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether pushes are laid aside, whether pops find nothing, and how many messages lie aside."""

    pushing: bool
    popping: bool
    aside: int
