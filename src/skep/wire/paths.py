"""The routes as functions, in which any name can stand."""

from urllib.parse import quote
from uuid import UUID

DEFAULT_URL = "http://127.0.0.1:6632"
"""Where a server listens that was told nothing else."""
API = "/api/v1"
PUSH = f"{API}/push"
BACKUP = f"{API}/system/backup"
MAINTENANCE = f"{API}/system/maintenance"
MAINTENANCE_OF_POPS = f"{MAINTENANCE}/pop"
TRANSACTION = f"{API}/transaction"


def pop(queue: str | None, partition: str | None) -> str:
    if queue is None:
        return f"{API}/pop"
    if partition is None:
        return f"{API}/pop/queue/{segment(queue)}"
    return f"{API}/pop/queue/{segment(queue)}/partition/{segment(partition)}"


def settle(lease_id: str) -> str:
    return f"{API}/lease/{lease_id}/settle"


def extend(lease_id: str) -> str:
    return f"{API}/lease/{lease_id}/extend"


def segment(name: str) -> str:
    """A name as one segment of a path."""
    if name in (".", ".."):
        # As they are they would mean this segment and the one above.
        return name.replace(".", "%2E")
    return quote(name, safe="")


# For operators.

CONFIGURE = f"{API}/configure"
QUEUES = f"{API}/resources/queues"
GROUPS = f"{API}/consumer-groups"
MESSAGES = f"{API}/messages"
DEAD_LETTERS = f"{API}/dlq"
PIPELINES = f"{API}/pipelines"
TRACES = f"{API}/traces"
TRACE_NAMES = f"{TRACES}/names"


def queue(name: str) -> str:
    return f"{QUEUES}/{segment(name)}"


def application(name: str) -> str:
    return f"{API}/journal/apps/{segment(name)}"


def clear(queue: str) -> str:
    return f"{API}/queues/{segment(queue)}/clear"


def removals(queue: str) -> str:
    return f"{API}/queues/{segment(queue)}/removals"


def group(name: str) -> str:
    return f"{GROUPS}/{segment(name)}"


def group_in_queue(name: str, queue: str) -> str:
    return f"{group(name)}/queues/{segment(queue)}"


def subscription(name: str) -> str:
    return f"{group(name)}/subscription"


def seek(name: str, queue: str, partition: str | None) -> str:
    if partition is None:
        return f"{group_in_queue(name, queue)}/seek"
    return f"{group_in_queue(name, queue)}/partitions/{segment(partition)}/seek"


def message(partition_id: UUID, transaction_id: str) -> str:
    return f"{MESSAGES}/{partition_id}/{segment(transaction_id)}"


def give_up(partition_id: UUID, transaction_id: str) -> str:
    return f"{message(partition_id, transaction_id)}/dlq"


def dead_letters(queue: str) -> str:
    return f"{DEAD_LETTERS}/{segment(queue)}"


def dead_letter(queue: str, number: int) -> str:
    return f"{dead_letters(queue)}/{number}"


def replay(queue: str) -> str:
    return f"{dead_letters(queue)}/replay"


def pipeline(identity: str) -> str:
    return f"{PIPELINES}/{segment(identity)}"


def traced(trace_id: UUID) -> str:
    return f"{TRACES}/id/{trace_id}"


def trace_events(partition_id: UUID, transaction_id: str) -> str:
    return f"{TRACES}/{partition_id}/{segment(transaction_id)}"


def named_events(name: str) -> str:
    return f"{TRACES}/by-name/{segment(name)}"
