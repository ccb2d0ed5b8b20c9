"""The journal over HTTP: times are in milliseconds, and positions in our words."""

from tests.support.http.memory_app import JSON, HttpCaller

HEADS = "/api/v1/journal/heads"


def lanes(position: JSON) -> int:
    (queue,) = position["queues"].values()
    return sum(queue["lanes"].values())


async def test_heads_say_where_a_time_is_if_they_are_asked(hand: HttpCaller) -> None:
    await hand.push("orders", 1, 2, 3)
    hand.clock.advance(10)
    moment = hand.clock.now() // 1000
    hand.clock.advance(1)
    await hand.push("orders", 4)

    asked = await hand.post(HEADS, {"queues": ["orders"], "at": moment})
    not_asked = await hand.post(HEADS, {"queues": ["orders"]})

    assert lanes(asked["at"]) == 3
    assert lanes(asked["heads"]) == 4
    assert not_asked["at"] is None


async def test_a_group_that_stays_is_shown_where_it_began(hand: HttpCaller) -> None:
    group = "/api/v1/journal/groups/archive"
    await hand.push("orders", 1, 2, 3)
    await hand.http.put(group, json={"queues": ["orders"], "start": "earliest"})
    end = (await hand.post(HEADS, {"queues": ["orders"]}))["heads"]

    stayed = await hand.post(f"{group}/position", {"position": end, "stay": True})
    moved = await hand.post(f"{group}/position", {"position": end})

    assert (stayed["lag"], moved["lag"]) == (3, 0)


async def test_a_reader_group_has_lanes_and_no_partitions(hand: HttpCaller) -> None:
    group = "/api/v1/journal/groups/archive"
    await hand.push("orders", 1, 2, 3)
    await hand.http.put(group, json={"queues": ["orders"], "start": "earliest"})
    await hand.pop("orders", consumerGroup="billing")

    reader = (await hand.http.get("/api/v1/consumer-groups/archive")).json()["orders"]
    popping = (await hand.http.get("/api/v1/consumer-groups/billing")).json()["orders"]

    (lane,) = reader["lanes"]
    assert (lane["position"], lane["head"], lane["lag"]) == (0, 3, 3)
    assert lane["oldestAt"] is not None
    assert "partitionId" not in lane
    assert (reader["partitions"], popping["lanes"]) == ([], [])
    assert len(popping["partitions"]) == 1


async def test_a_time_that_is_none_is_refused_by_its_name(hand: HttpCaller) -> None:
    await hand.push("orders", 1)

    refused = await hand.post(HEADS, {"queues": ["orders"], "at": "today"}, expect=400)

    assert refused["error"].startswith("at: ")
