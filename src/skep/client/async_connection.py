"""Sending requests, again if that makes sense.

The source of ``sync_connection.py``, which ``make sync`` writes.
"""

import asyncio
from ssl import SSLContext

import httpx

from skep.client.request import Answer, Request, check_url, failure_of, refusal_of, settings_of
from skep.client.retry import Attempts, Retry
from skep.errors import Closed


class AsyncConnection:
    """One server, as all parts of a client reach it."""

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

    async def send(self, request: Request) -> Answer:
        """Send a request until there is an answer or no point in trying any longer."""
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
                    return Answer(response.content, attempts.uncertain)
                failure = refusal_of(response)
            await asyncio.sleep(attempts.pause(failure))
