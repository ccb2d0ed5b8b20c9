"""The routes as functions, in which any name can stand."""

from urllib.parse import quote

API = "/api/v1"
PUSH = f"{API}/push"
BACKUP = f"{API}/system/backup"
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
