"""Every route, every role, queues that are one's own and queues that are not."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

import httpx
import pytest

from skep.http.auth.principal import ROLES, Permission
from skep.http.routes.lookup import queue_in_query
from skep.http.routing import Route
from tests.support.broker_builders import drafts, finish, pop_all, start
from tests.support.http.access_example import Example, QueueExample
from tests.support.http.authenticated_app import knock
from tests.support.http.route_examples import EXAMPLES, WITHOUT_QUEUE
from tests.support.http.token_signing import bearer, sign
from tests.support.http.two_queues import OTHER, OWN, ROUTES, TwoQueues, open_two_queues

RIGHTS = {
    "monitor": {Permission.STATUS},
    "reader": {Permission.STATUS, Permission.READ},
    "producer": {Permission.PUSH},
    "consumer": {Permission.POP},
    "operator": {Permission.STATUS, Permission.READ, Permission.OPERATE},
    "admin": set(Permission),
    "read-only": {Permission.STATUS, Permission.READ},
    "read-write": set(Permission) - {Permission.ADMIN},
}
CHANGING = {"uptime", "uptimeSeconds", "workerId", "worker_id"}
"""What is different in every answer."""


@dataclass(frozen=True)
class Caller:
    """Who has a role, for all queues or for his own, and calls something about a queue."""

    role: str
    restricted: bool
    place: str

    def headers(self) -> dict[str, str]:
        queues = ["mail", f"{OWN[:3]}*"] if self.restricted else None
        return bearer(sign(role=self.role, queues=queues))

    def about(self, scene: TwoQueues) -> QueueExample:
        return scene.own if self.place == OWN else scene.other


CALLERS = [Caller(*each) for each in product([*ROLES, "stranger"], [False, True], [OWN, OTHER])]


@dataclass(frozen=True)
class Case:
    """A route and a way to call it."""

    route: Route
    example: Example

    def __str__(self) -> str:
        return f"{self.route.method} {self.example.path or self.route.path}"

    def allows(self, caller: Caller) -> bool:
        if not self.example.needs <= ROLES.get(caller.role, frozenset()):
            return False
        if not caller.restricted or self.example.about in ("what he sees", "no queue"):
            return True
        return self.example.about == "one queue" and caller.place == OWN

    async def call(
        self, scene: TwoQueues, place: QueueExample, query: str = "", **headers: str
    ) -> httpx.Response:
        path = self.example.path_of(self.route, place)
        body: dict[str, Any] = {"json": self.example.body(place)} if self.example.body else {}
        if self.example.content is not None:
            body = {"content": self.example.content}
        async with knock(scene.app, **headers) as client:
            return await client.request(
                self.route.method, f"{path}{'&' if '?' in path else '?'}{query}", **body
            )


CASES = [
    Case(route, examples[route.method, route.path])
    for examples in (EXAMPLES, WITHOUT_QUEUE)
    for route in ROUTES
    if (route.method, route.path) in examples
]
each_case = pytest.mark.parametrize("case", CASES, ids=str)


@asynccontextmanager
async def waiting(*scenes: TwoQueues) -> AsyncIterator[None]:
    """While in each queue somebody waits for a message."""
    polls = [
        await start(scene.broker.pop(queue, partition="none", group="late", wait=30))
        for scene in scenes
        for queue in (OWN, OTHER)
    ]
    yield
    for scene in scenes:
        scene.broker.drain()
    for poll in polls:
        await finish(poll)


def told(answer: httpx.Response) -> Any:
    """An answer without what changes by itself; of a page for Prometheus, what is of queues."""
    assert answer.is_success, answer.text
    if answer.headers["content-type"] == "application/json":
        return json.loads(answer.text, object_pairs_hook=_lasting)
    return [line for line in answer.text.splitlines() if "queue=" in line]


def _lasting(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if name not in CHANGING}


@each_case
async def test_a_route_is_refused_to_whom_it_is_not_for(case: Case, scene: TwoQueues) -> None:
    before = scene.kept()

    for caller in CALLERS:
        if not case.allows(caller):
            answer = await case.call(scene, caller.about(scene), **caller.headers())

            assert answer.status_code == 403, caller
            assert scene.kept() == before, caller
            assert caller.place not in answer.text, caller


@each_case
async def test_a_route_does_what_it_is_for_and_leaves_other_queues_alone(case: Case) -> None:
    allowed = [caller for caller in CALLERS if case.allows(caller)]
    for callers in [[each] for each in allowed] if case.example.writes else [allowed]:
        async with open_two_queues() as scene:
            before, other = scene.kept(), await scene.state_of(OTHER)
            for caller in callers:
                answer = await case.call(scene, caller.about(scene), **caller.headers())

                expected = case.example.status_of(case.route)
                assert answer.status_code == expected, (caller, answer.text)
                assert (scene.kept() != before) == case.example.writes, caller
                if caller.restricted:
                    assert OTHER not in answer.text, caller
                    assert await scene.state_of(OTHER) == other, caller


@pytest.mark.parametrize("query", ["", "limit=1"])
@pytest.mark.parametrize(("own", "other"), [(OWN, OTHER), (OTHER, OWN)])
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.example.about == "what he sees"], ids=str
)
async def test_who_sees_some_queues_is_answered_as_if_there_were_no_others(
    case: Case, own: str, other: str, query: str
) -> None:
    async with (
        open_two_queues() as scene,
        open_two_queues() as same,
        open_two_queues() as alone,
        waiting(scene, same, alone),
    ):
        # What happened there is counted even after the queue is gone.
        await alone.broker.push(other, drafts(5))
        await pop_all(alone.broker, other, group="busy")
        await alone.broker.queues.delete(other)

        seen, only = [
            told(await case.call(each, each.own, query, **bearer(sign(queues=[own]))))
            for each in (scene, alone)
        ]
        everything = told(await case.call(same, same.own, query, **bearer(sign())))

    assert seen == only
    assert seen != everything or query


@each_case
async def test_who_shows_nothing_may_use_only_what_needs_nothing(
    case: Case, scene: TwoQueues
) -> None:
    before = scene.kept()

    answer = await case.call(scene, scene.own)

    assert (answer.status_code == 401) == bool(case.example.needs)
    assert scene.kept() == before
    assert OWN not in answer.text or case.example.about == "no queue"


@each_case
async def test_a_route_is_refused_before_its_body_is_read(case: Case, scene: TwoQueues) -> None:
    path = case.example.path_of(case.route, scene.own)

    async with knock(scene.app, **bearer(sign(role="stranger"))) as client:
        answer = await client.request(case.route.method, path, content=b"not JSON")

    assert (answer.status_code == 403) == bool(case.example.needs)


def test_every_route_has_an_example_and_every_example_a_route() -> None:
    assert set(EXAMPLES) == {(route.method, route.path) for route in ROUTES}


def test_a_route_that_need_not_be_told_a_queue_has_an_example_without_one() -> None:
    asked = {(route.method, route.path) for route in ROUTES if route.queues is queue_in_query}

    assert set(WITHOUT_QUEUE) == asked


def test_roles_allow_what_is_written_here() -> None:
    assert ROLES == RIGHTS


def test_no_role_but_the_highest_may_delete() -> None:
    assert [role for role in ROLES if Permission.ADMIN in ROLES[role]] == ["admin"]
