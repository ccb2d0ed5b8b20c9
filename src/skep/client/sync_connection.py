"""Sending requests, again if that makes sense.

Generated from ``async_connection.py``: change that, then ``make sync``.
"""

import time
from ssl import SSLContext

import httpx

from skep.client.request import Answer, Request, check_url, failure_of, refusal_of, settings_of
from skep.client.retry import Attempts, Retry
from skep.errors import Closed


class Connection:
    """One server, as all parts of a client reach it."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        timeout: float,
        retry: Retry | None,
        transport: httpx.BaseTransport | None,
        verify: bool | SSLContext,
    ) -> None:
        self._retry = retry or Retry()
        self._timeout = timeout
        self._http = httpx.Client(
            transport=transport, **settings_of(check_url(url), token, timeout, verify)
        )

    def close(self) -> None:
        self._http.close()

    def send(self, request: Request) -> Answer:
        """Send a request until there is an answer or no point in trying any longer."""
        if self._http.is_closed:
            raise Closed
        attempts = Attempts(
            self._retry, repeatable=request.repeatable, last_counts=request.last_counts
        )
        while True:
            try:
                response = self._http.request(
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
            time.sleep(attempts.pause(failure))
