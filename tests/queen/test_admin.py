"""Every call of Queen's administration, made with the client itself."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from queen import Admin, Queen

pytestmark = pytest.mark.xdist_group("queen")


async def call(queen: Queen, method: str, *arguments: Any, **more: Any) -> Any:
    return await getattr(queen.admin, method)(*arguments, **more)


async def dead(queen: Queen, name: str) -> dict[str, Any]:
    """A message of a queue that was given up."""
    await queen.queue(name).push([{"data": {"n": 1}}])
    (message,) = await queen.queue(name).wait(False).pop()
    await queen.ack(message, "dlq")
    found: dict[str, Any] = message
    return found


async def test_queues_and_what_is_in_them_are_shown(queen: Queen, name: str) -> None:
    await queen.queue(name).namespace("admin-ns").task("admin-task").create()
    await queen.queue(name).push([{"data": {"n": n}} for n in range(3)])
    await queen.queue(name).wait(False).pop()

    overview = await call(queen, "get_overview")
    spaces = await call(queen, "get_namespaces")
    tasks = await call(queen, "get_tasks")
    queues = await call(queen, "list_queues", limit=1000)
    one = await call(queen, "get_queue", name)
    partitions = await call(queen, "get_partitions", queue=name)

    assert overview["queues"] >= 1
    assert overview["messages"]["total"] >= 3
    assert "admin-ns" in {each["namespace"] for each in spaces["namespaces"]}
    assert "admin-task" in {each["task"] for each in tasks["tasks"]}
    assert name in {each["name"] for each in queues["queues"]}
    assert (one["name"], one["namespace"], len(one["partitions"])) == (name, "admin-ns", 1)
    assert [each["queue"] for each in partitions["partitions"]] == [name]


async def test_a_queue_is_cleared(queen: Queen, name: str) -> None:
    await queen.queue(name).push([{"data": 1}, {"data": 2}])

    cleared = await call(queen, "clear_queue", name)

    assert (cleared["cleared"], cleared["count"]) == (True, 2)
    assert await queen.queue(name).wait(False).pop() == []


async def test_messages_are_listed_shown_and_deleted(queen: Queen, name: str) -> None:
    await queen.queue(name).push([{"data": {"n": 1}, "transactionId": "t"}])
    (message,) = await queen.queue(name).wait(False).pop()
    place = message["partitionId"], message["transactionId"]

    listed = await call(queen, "list_messages", queue=name)
    shown = await call(queen, "get_message", *place)
    deleted = await call(queen, "delete_message", *place)

    assert [each["transactionId"] for each in listed["messages"]] == ["t"]
    assert (shown["payload"], shown["status"]) == ({"n": 1}, "processing")
    assert deleted["success"] is True
    with pytest.raises(Exception, match="not"):
        await queen.admin.get_message(*place)


async def test_a_dead_letter_is_sent_back(queen: Queen, name: str) -> None:
    message = await dead(queen, name)

    answer = await call(queen, "retry_message", message["partitionId"], message["transactionId"])

    assert answer["success"] is True
    (again,) = await queen.queue(name).wait(False).pop()
    assert again["data"] == {"n": 1}


async def test_a_message_is_given_up_from_outside(queen: Queen, name: str) -> None:
    await queen.queue(name).create()
    await queen.queue(name).group("g").wait(False).pop()
    await queen.queue(name).push([{"data": {"n": 1}, "transactionId": "t"}])
    (pushed,) = (await queen.admin.list_messages(queue=name))["messages"]

    answer = await call(queen, "move_message_to_dlq", pushed["partitionId"], "t")

    assert answer["success"] is True
    assert (await queen.queue(name).dlq().get())["total"] >= 1


async def test_traces_are_found(queen: Queen, name: str) -> None:
    await queen.queue(name).push([{"data": 1}])
    told: list[Any] = []

    async def handler(message: Any) -> None:
        told.append(message)
        await message["trace"]({"traceName": name, "data": {"text": "seen"}})

    await queen.queue(name).each().limit(1).consume(handler)

    by_name = await call(queen, "get_traces_by_name", name, limit=10)
    names = await call(queen, "get_trace_names", limit=100)
    of_message = await call(
        queen, "get_traces_for_message", told[0]["partitionId"], told[0]["transactionId"]
    )
    assert (by_name["total"], by_name["traces"][0]["queue_name"]) == (1, name)
    assert name in {each["trace_name"] for each in names["trace_names"]}
    assert of_message["traces"][0]["data"] == {"text": "seen"}


async def test_the_state_of_things_is_shown(queen: Queen, name: str) -> None:
    await queen.queue(name).push([{"data": 1}])

    status = await call(queen, "get_status", queue=name)
    queues = await call(queen, "get_queue_stats", limit=1000)
    detail = await call(queen, "get_queue_detail", name)
    analytics = await call(queen, "get_analytics", interval="hour")

    assert status["messages"]["pending"] >= 1
    assert name in {each["name"] for each in queues["queues"]}
    assert detail["queue"]["name"] == name
    assert "from" in analytics


async def test_groups_are_shown_moved_and_forgotten(queen: Queen, name: str) -> None:
    await queen.queue(name).push([{"data": {"n": 1}}])
    group = f"{name}-g"
    (message,) = await queen.queue(name).group(group).wait(False).pop()
    await queen.ack(message, True, {"group": group})

    listed = await call(queen, "list_consumer_groups")
    one = await call(queen, "get_consumer_group", group)
    lagging = await call(queen, "get_lagging_consumers", 0)
    refreshed = await call(queen, "refresh_consumer_stats")
    past = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    moved = await call(queen, "seek_consumer_group", group, name, {"timestamp": past})
    again = await queen.queue(name).group(group).wait(False).pop()
    forgotten = await call(queen, "delete_consumer_group_for_queue", group, name)

    assert (group, name) in {(each["name"], each["queueName"]) for each in listed}
    assert one[name]["partitions"][0]["totalConsumed"] == 1
    assert isinstance(lagging, list)
    assert isinstance(refreshed, dict)
    assert moved["success"] is True
    assert [each["data"] for each in again] == [{"n": 1}]
    assert forgotten["success"] is True


async def test_the_server_tells_of_itself(queen: Queen) -> None:
    health = await call(queen, "health")
    metrics = await call(queen, "metrics")
    system = await call(queen, "get_system_metrics")
    workers = await call(queen, "get_worker_metrics")
    postgres = await call(queen, "get_postgres_stats")

    assert health["status"] == "healthy"
    assert "uptime" in metrics
    assert system["replicaCount"] == 1
    assert "timeSeries" in workers
    assert "tableSizes" in postgres


async def test_maintenance_is_switched(queen: Queen, name: str) -> None:
    assert (await call(queen, "set_maintenance_mode", True))["maintenanceMode"] is True
    await queen.queue(name).push([{"data": {"n": 1}}])
    assert (await call(queen, "get_maintenance_mode"))["bufferedMessages"] >= 1
    await queen.admin.set_maintenance_mode(False)
    (message,) = await queen.queue(name).wait(True).timeout_millis(5000).pop()
    assert message["data"] == {"n": 1}

    assert (await call(queen, "set_pop_maintenance_mode", True))["popMaintenanceMode"] is True
    assert (await call(queen, "get_pop_maintenance_mode"))["popMaintenanceMode"] is True
    assert await queen.queue(name).wait(False).pop() == []
    await queen.admin.set_pop_maintenance_mode(False)


def test_every_call_is_made() -> None:
    calls = {name for name in vars(Admin) if not name.startswith("_")}

    made = set(re.findall(r'call\(\s*queen, "(\w+)"', Path(__file__).read_text()))

    assert calls - made == set()
