"""A route says who may use it, or there is no such route."""

from typing import Any

import pytest

from skep.http.auth.principal import Permission
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routes import all_routes
from skep.http.routing import Route, named_queue, no_queue


async def answer(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


def declaration(**other: Any) -> dict[str, Any]:
    return {
        "method": "GET",
        "path": "/somewhere",
        "handler": answer,
        "needs": Permission.STATUS,
        "queues": no_queue,
        "summary": "Something.",
        **other,
    }


@pytest.mark.parametrize("forgotten", ["needs", "queues"])
def test_a_route_that_leaves_out_who_may_use_it_cannot_be_made(forgotten: str) -> None:
    declared = declaration()
    del declared[forgotten]

    with pytest.raises(TypeError, match=forgotten):
        Route(**declared)


@pytest.mark.parametrize("forgotten", ["needs", "queues"])
def test_a_route_that_says_nothing_of_who_may_use_it_cannot_be_made(forgotten: str) -> None:
    declared = declaration(**{forgotten: None})

    with pytest.raises(TypeError, match="GET /somewhere must declare"):
        Route(**declared)


def test_a_permission_that_is_only_a_word_is_none() -> None:
    declared = declaration(needs="everything")

    with pytest.raises(TypeError, match="must declare a permission"):
        Route(**declared)


def test_a_route_with_a_queue_in_its_path_is_about_that_queue() -> None:
    declared = declaration(path="/queue/{queue}")

    with pytest.raises(TypeError, match="has a queue in its path but declares none"):
        Route(**declared)

    assert Route(**declared | {"queues": named_queue}).names == ("queue",)


def test_every_route_is_there_once() -> None:
    places = [(route.method, route.path) for route in all_routes()]

    assert len(places) == len(set(places))
    assert ("POST", "/api/v1/push") in places
