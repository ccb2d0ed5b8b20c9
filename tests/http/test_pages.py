"""The documentation that the server shows."""

import re
from typing import cast

import pytest

from skep.http.request import HttpRequest
from skep.http.routes import all_routes
from tests.support.http.json_client import Client


async def test_it_begins_with_what_one_does_first(client: Client) -> None:
    page = await client.text("/docs")

    headings = re.findall(r'<h2 id="(.+?)">', page)

    assert headings[:3] == ["push", "pop", "ack"]
    assert headings[-1] == "server"
    assert [f'href="#{heading}"' in page for heading in headings] == [True] * len(headings)


async def test_the_fields_of_what_a_body_holds_are_shown(client: Client) -> None:
    page = await client.text("/docs")

    (push,) = re.findall(r"<details>(?:(?!</details>).)*/api/v1/push<.*?</details>", page)

    assert "Body · items" in push
    assert "<code>transactionId</code>" in push


async def test_words_of_the_wire_are_set_as_code(client: Client) -> None:
    page = await client.text("/docs")

    assert "``" not in page
    assert "default False" not in page


@pytest.mark.parametrize("path", ["/docs", "/docs.css", "/openapi.json"])
async def test_a_page_is_rendered_once(path: str) -> None:
    route = next(route for route in all_routes() if route.path == path)
    call = cast("HttpRequest", None)

    assert await route.handler(call) is await route.handler(call)
