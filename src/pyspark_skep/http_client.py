"""HTTP requests to the server, retried where it is safe."""

import json
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from random import random
from typing import Any
from urllib.parse import quote, urlsplit

from pyspark_skep.arrow import pa
from pyspark_skep.errors import Interrupted, RequestRejected
from pyspark_skep.options import Options

API = "/api/v1"
JOURNAL = f"{API}/journal"
ATTEMPTS = 8
"""Consecutive attempts without progress; with their delays they outlast a server restart."""
TIMEOUT = 60.0

# Arrow may notice before HTTP that a response was cut off.
_CONNECTION_ERRORS = (OSError, HTTPException, *(() if pa is None else (pa.ArrowException,)))


def retry_delay(failures: int, retry_after: float = 0.0) -> float:
    """Return the seconds to wait after this number of consecutive failures."""
    backoff = 0.2 * 2.0 ** min(failures - 1, 10)
    return min(max(backoff * (0.5 + random() / 2), retry_after), 5.0)


class HttpClient:
    """Sends requests, each on a new connection, because readers are pickled and forked."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._url = urlsplit(options.url)

    def request_json(
        self, method: str, path: str, body: Any = None, *, timeout: float = TIMEOUT
    ) -> Any:
        """Send JSON and return the JSON of the response."""
        content = None if body is None else json.dumps(body).encode()
        return self.request(method, path, content, "application/json", timeout=timeout)

    def request(
        self,
        method: str,
        path: str,
        content: bytes | None,
        content_type: str,
        *,
        timeout: float = TIMEOUT,
    ) -> Any:
        """Send a request until the server responds. It may be executed more than once."""
        failures = 0
        while True:
            try:
                with self.stream(method, path, content, content_type, timeout=timeout) as response:
                    answer = response.read()
                return json.loads(answer) if answer else None
            except Interrupted as error:
                failures += 1
                if failures == ATTEMPTS:
                    raise
                time.sleep(retry_delay(failures, error.retry_after))

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        content: bytes | None,
        content_type: str,
        *,
        timeout: float = TIMEOUT,
    ) -> Iterator[HTTPResponse]:
        """Yield the response, to be read in the block; raise ``Interrupted`` if it is cut off."""
        headers = {"Content-Type": content_type, **self._authorization()}
        connection = self._connect(timeout)
        try:
            connection.request(method, self._url.path + path, content, headers)
            response = connection.getresponse()
            if response.status >= 300:
                raise _to_error(response, self._options.url)
            yield response
            # Reading the rest raises if the response was cut off.
            response.read()
        except _CONNECTION_ERRORS as error:
            reason = error or type(error).__name__
            raise Interrupted(f"no complete response from {self._options.url}: {reason}") from error
        finally:
            connection.close()

    def _connect(self, timeout: float) -> HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "http":
            return HTTPConnection(host, port, timeout=timeout)
        return HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context())

    def _authorization(self) -> dict[str, str]:
        secret = self._options.secret()
        return {} if secret is None else {"Authorization": f"Bearer {secret}"}


def _to_error(response: HTTPResponse, url: str) -> Exception:
    content = response.read()
    try:
        problem = json.loads(content)
        message, code = str(problem["error"]), str(problem.get("code") or problem.get("type"))
    except (ValueError, KeyError, TypeError, AttributeError):
        message, code = f"the server responded with status {response.status}", ""
    # Also 500: the request may have been executed, and every request here may be repeated.
    if response.status in (408, 429, 500, 502, 503, 504):
        retry_after = response.headers.get("Retry-After") or ""
        return Interrupted(message, float(retry_after) if retry_after.isdecimal() else 0.0)
    if response.status == 401:
        message += "; set the option token, tokenFile or tokenEnv"
    if response.status == 404:
        message += f" at {url}"
    return RequestRejected(response.status, code, message)


def path_segment(name: str) -> str:
    """Return a name quoted as one segment of a path."""
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")
