"""Pages of other sites cannot use a server on their visitor's machine, in a real Chromium."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.browser import site, visit
from tests.support.server_process import ServerProcess

LOADED = "<title>loaded</title>"

TAGS = {
    "image": '<img src="{pop}">',
    "image without a referrer": '<img referrerpolicy="no-referrer" src="{pop}">',
    "script": '<script src="{pop}"></script>',
    "stylesheet": '<link rel="stylesheet" href="{pop}">',
    "frame": '<iframe src="{pop}"></iframe>',
    "request": """<script>fetch("{pop}", {{mode: "no-cors"}})</script>""",
    "HEAD request": """<script>fetch("{pop}", {{mode: "no-cors", method: "HEAD"}})</script>""",
}


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    with ServerProcess("memory://") as server:
        push(server)
        yield server


def push(server: ServerProcess) -> None:
    items = [{"queue": "orders", "payload": number} for number in range(100)]
    httpx.post(f"{server.url}/api/v1/push", json={"items": items}).raise_for_status()


def pop_url(server: ServerProcess, group: str = "__QUEUE_MODE__") -> str:
    return f"{server.url}/api/v1/pop/queue/orders?autoAck=true&consumerGroup={group}"


def left(server: ServerProcess) -> int:
    answer = httpx.get(pop_url(server), params={"batch": 1000, "autoAck": True})
    return len(answer.json()["messages"]) if answer.content else 0


def test_no_element_of_another_site_takes_messages(server: ServerProcess, tmp_path: Path) -> None:
    elements = "".join(tag.format(pop=pop_url(server)) for tag in TAGS.values())

    with site(f"<!doctype html>{LOADED}<body>{elements}</body>") as url:
        at_another_port = visit(url, tmp_path / "port")
        at_another_name = visit(url.replace("127.0.0.1", "localhost"), tmp_path / "name")

    assert LOADED in at_another_port
    assert LOADED in at_another_name
    assert left(server) == 100


def test_a_link_of_another_site_takes_no_messages(server: ServerProcess, tmp_path: Path) -> None:
    page = f"<script>location.replace('{pop_url(server)}')</script>"

    with site(page) as url:
        seen = visit(url, tmp_path)

    assert "requests from pages of other sites are not allowed" in seen
    assert left(server) == 100


def test_a_site_that_is_allowed_may_pop(tmp_path: Path) -> None:
    script = """<script>
      const request = new XMLHttpRequest()
      request.open("GET", location.hash.slice(1), false)
      request.send()
      document.title = "popped " + JSON.parse(request.responseText).messages.length
    </script>"""
    with (
        site(f"<!doctype html><title>before</title>{script}") as url,
        ServerProcess("memory://", SKEP_CORS_ORIGINS=url) as server,
    ):
        push(server)
        seen = visit(f"{url}/#{pop_url(server)}", tmp_path)

        assert "popped 1" in seen
        assert left(server) == 99


def test_the_pages_of_the_server_itself_can_be_opened(
    server: ServerProcess, tmp_path: Path
) -> None:
    assert "The HTTP API" in visit(f"{server.url}/docs", tmp_path)
