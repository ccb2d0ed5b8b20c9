"""One server: requests are sent, and sent again where that is safe.

The source of ``sync_connection.py``, which ``make sync`` writes.
"""

import asyncio
import logging
from ssl import SSLContext

import httpx

from skep.client.request import (
    ClientRequest,
    ClientResponse,
    check_url,
    failure_of,
    rejection_of,
    settings_of,
)
from skep.client.retry import Attempts, Retry
from skep.errors import Closed

_log = logging.getLogger("skep.client")


class AsyncConnection:
    """The connection of a client and its resources to one server."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        timeout: float,
        retry: Retry | None,
        transport: httpx.AsyncBaseTransport | None,
        verify: bool | SSLContext,
    ) -> None:
        self._retry = retry or Retry()
        self._timeout = timeout
        self._http = httpx.AsyncClient(
            transport=transport, **settings_of(check_url(url), token, timeout, verify)
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, request: ClientRequest) -> ClientResponse:
        """Send a request and return its response; retry as ``Retry`` and the request allow."""
        if self._http.is_closed:
            raise Closed
        attempts = Attempts(
            self._retry, repeatable=request.repeatable, last_counts=request.last_counts
        )
        while True:
            try:
                response = await self._http.request(
                    request.method,
                    request.path,
                    params=request.query,
                    content=request.body,
                    timeout=httpx.Timeout(self._timeout, read=request.wait + self._timeout),
                )
            except httpx.RequestError as error:
                failure = failure_of(error)
            else:
                if response.is_success:
                    return ClientResponse(response.content, attempts.uncertain)
                failure = rejection_of(response)
            delay = attempts.pause(failure)
            _log.info(
                "request failed, retrying: method=%s path=%s delay=%.1fs error=%s",
                request.method,
                request.path,
                delay,
                failure.error,
            )
            await asyncio.sleep(delay)
