"""Who asks: from a token or a key to a principal."""

from typing import Protocol

from skep.http.access import ANYBODY, Permission, Principal


class Authenticator(Protocol):
    async def authenticate(
        self, needs: Permission, authorization: bytes, api_key: bytes
    ) -> Principal:
        """Who sent these headers; raises ``Unauthenticated`` if nobody that we know did.

        A route that needs nothing is open to requests without any.
        """
        ...


class OpenDoor:
    """No authentication: everybody may do everything, so nobody else should reach the server."""

    async def authenticate(
        self, needs: Permission, authorization: bytes, api_key: bytes
    ) -> Principal:
        return ANYBODY
