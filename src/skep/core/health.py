"""Whether the broker can do its work."""

from contextlib import suppress

from skep.core.catalogue import Catalogue
from skep.core.committer import Committer
from skep.errors import Overloaded
from skep.model.change import Change


class Health:
    def __init__(self, catalogue: Catalogue, committer: Committer) -> None:
        self._catalogue = catalogue
        self._committer = committer

    @property
    def is_stopping(self) -> bool:
        """Whether long polls are answered at once, because the broker will be closed soon."""
        return self._catalogue.waiting.closed

    @property
    def is_closed(self) -> bool:
        return self._catalogue.closed

    async def check(self) -> None:
        """Raise what stands against writing; a store that has much to do is not broken."""
        self._catalogue.check_open()
        with suppress(Overloaded):
            await self._committer.submit(Change())
