"""An application belongs to its first principal, and its versions leave room for the next ones."""

import asyncio

import pytest

from skep import Broker
from skep.errors import Conflict, Forbidden
from skep.model.sink import Stage
from skep.testing.clock import ManualClock
from tests.support.sink_builders import APP, commit, numbers, payloads, published, stage

DAY = 24 * 3600
DONE = Stage(stage="s", chunks=1, rows=1)


async def stage_as(queue: Broker, owner: str | None, version: int | None = 0) -> None:
    await queue.sink.stage(APP, version, "s", 0, numbers(0, 1), queue="orders", owner=owner)


@pytest.mark.parametrize("version", [0, None])
async def test_an_application_belongs_to_who_first_staged_under_its_name(
    queue: Broker, version: int | None
) -> None:
    await stage_as(queue, "ann", version)

    for owner in ("bob", None):
        with pytest.raises(Forbidden, match=r"query-1.*belongs to another"):
            await stage_as(queue, owner, version)
        with pytest.raises(Forbidden):
            await queue.sink.commit(APP, version, [DONE], owner=owner)
        with pytest.raises(Forbidden):
            await queue.sink.commit(APP, version, [], owner=owner)
        with pytest.raises(Forbidden):
            await queue.sink.abort(APP, version, [DONE], owner=owner)

    assert await queue.sink.last_version(APP) is None
    assert await queue.sink.commit(APP, version, [DONE], owner="ann") == published(1)
    assert await payloads(queue) == [b"0"]


async def test_an_application_belongs_to_who_first_committed_a_version_without_rows(
    queue: Broker,
) -> None:
    await queue.sink.commit(APP, 1, [], owner="ann")

    with pytest.raises(Forbidden):
        await queue.sink.commit(APP, 2, [], owner="bob")

    assert not (await queue.sink.commit(APP, 2, [], owner="ann")).duplicate


@pytest.mark.parametrize(("first", "second"), [(5, None), (None, 5)])
async def test_the_owner_is_the_same_with_versions_and_without(
    queue: Broker, first: int | None, second: int | None
) -> None:
    await stage_as(queue, "ann", first)

    with pytest.raises(Forbidden):
        await stage_as(queue, "bob", second)
    with pytest.raises(Forbidden):
        await queue.sink.commit(APP, second, [], owner="bob")
    with pytest.raises(Forbidden):
        await queue.sink.abort(APP, second, [DONE], owner="bob")

    for version in (first, second):
        await stage_as(queue, "ann", version)
        assert await queue.sink.commit(APP, version, [DONE], owner="ann") == published(1)


@pytest.mark.parametrize(("first", "second"), [(5, None), (None, 5)])
async def test_who_first_committed_is_the_owner_with_versions_and_without(
    queue: Broker, first: int | None, second: int | None
) -> None:
    await queue.sink.commit(APP, first, [], owner="ann")

    with pytest.raises(Forbidden):
        await stage_as(queue, "bob", second)
    with pytest.raises(Forbidden):
        await queue.sink.commit(APP, second, [], owner="bob")


async def test_of_a_version_and_a_batch_committed_at_once_one_has_the_owner(queue: Broker) -> None:
    tries = await asyncio.gather(
        queue.sink.commit(APP, 5, [], owner="ann"),
        queue.sink.commit(APP, None, [], owner="bob"),
        return_exceptions=True,
    )

    assert sum(isinstance(each, Forbidden) for each in tries) == 1


async def test_a_batch_keeps_its_owner_as_long_as_it_may_be_repeated(
    queue: Broker, clock: ManualClock
) -> None:
    await queue.sink.commit(APP, None, [], owner="ann")
    clock.advance(7 * DAY - 1)
    await queue.sweep()
    with pytest.raises(Forbidden):
        await stage_as(queue, "bob")

    clock.advance(1)
    await queue.sweep()

    await stage_as(queue, "bob")


async def test_of_two_who_stage_first_at_once_one_is_the_owner(queue: Broker) -> None:
    tries = await asyncio.gather(
        *(stage_as(queue, owner) for owner in ("ann", "bob", "ann", "bob")), return_exceptions=True
    )

    refused = [isinstance(each, Forbidden) for each in tries]
    assert refused in ([False, True] * 2, [True, False] * 2)


async def test_an_application_of_nobody_is_of_the_first_principal_who_stages(
    queue: Broker,
) -> None:
    await commit(queue, await stage(queue, "s", numbers(0, 1)))

    await stage_as(queue, "ann", 1)

    with pytest.raises(Forbidden):
        await stage_as(queue, None, 1)
    with pytest.raises(Forbidden):
        await stage_as(queue, "bob", 1)
    assert await queue.sink.commit(APP, 1, [DONE], owner="ann") == published(1)


@pytest.mark.parametrize("version", [0, None])
async def test_an_application_that_was_reset_belongs_to_nobody(
    queue: Broker, version: int | None
) -> None:
    await queue.sink.commit(APP, version, [], owner="ann")

    await queue.sink.reset(APP)

    await stage_as(queue, "bob", version)
    assert await queue.sink.commit(APP, version, [DONE], owner="bob") == published(1)


async def test_a_name_under_which_nothing_was_committed_can_be_reset(queue: Broker) -> None:
    await stage_as(queue, "ann")

    assert await queue.sink.reset(APP) is None

    await stage_as(queue, "bob")
    assert await queue.sink.commit(APP, 0, [DONE], owner="bob") == published(1)


async def test_who_staged_and_never_committed_owns_the_name_for_a_day(
    queue: Broker, clock: ManualClock
) -> None:
    await stage_as(queue, "ann")
    clock.advance(DAY - 1)
    await queue.sweep()
    with pytest.raises(Forbidden):
        await stage_as(queue, "bob")

    clock.advance(1)
    await queue.sweep()

    await stage_as(queue, "bob")


async def test_an_owner_that_has_something_staged_stays_the_owner(
    queue: Broker, clock: ManualClock
) -> None:
    await stage_as(queue, "ann")
    clock.advance(DAY - 1)
    await stage_as(queue, "ann")
    clock.advance(1)
    await queue.sweep()

    with pytest.raises(Forbidden):
        await stage_as(queue, "bob")


@pytest.mark.parametrize("version", [8, 9, 7 + (1 << 32)])
async def test_a_version_with_rows_need_not_be_the_next_one(queue: Broker, version: int) -> None:
    await commit(queue, await stage(queue, "s", numbers(0, 1), version=7), version=7)
    done = await stage(queue, "s", numbers(1, 2), version=version)

    assert await commit(queue, done, version=version) == published(1)


async def test_a_version_that_is_too_far_ahead_is_refused(queue: Broker) -> None:
    await commit(queue, await stage(queue, "s", numbers(0, 1), version=7), version=7)
    ahead = 8 + (1 << 32)

    for stages in ([await stage(queue, "s", numbers(1, 2), version=ahead)], []):
        with pytest.raises(Conflict, match=rf"'query-1' cannot commit version {ahead} after .* 7"):
            await commit(queue, *stages, version=ahead)

    assert await queue.sink.last_version(APP) == 7


async def test_a_version_without_rows_is_the_next_one_or_the_first(queue: Broker) -> None:
    assert await commit(queue, version=7) == published(0)
    with pytest.raises(Conflict, match="version 9 after version 7: a version without rows"):
        await commit(queue, version=9)

    assert await commit(queue, version=8) == published(0)


async def test_a_first_version_leaves_room_for_others(queue: Broker) -> None:
    with pytest.raises(Conflict, match="the first version is at most"):
        await commit(queue, version=1 << 62)

    assert await queue.sink.last_version(APP) is None
    assert await commit(queue, version=1 << 53) == published(0)
