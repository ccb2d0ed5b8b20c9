"""A partitioned message queue that you can trust with orders and payments."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Each name is loaded when it is first asked for: who uses a client must not wait for the broker
# and its store, nor have installed what they need. Type checkers and editors cannot follow
# `__getattr__`, so they read the imports; a test holds the two together.
if TYPE_CHECKING:
    from skep import errors
    from skep.client.async_client import AsyncClient
    from skep.client.consume.async_worker import AsyncConsumer
    from skep.client.consume.sync_consumer import Consumer
    from skep.client.produce.async_producer import AsyncProducer
    from skep.client.retry import Retry
    from skep.client.sync_client import Client
    from skep.core.broker import Broker
    from skep.core.limits import Limits
    from skep.core.log.encryption import KeyRing
    from skep.embedded import open, restore
    from skep.model.message import Delivery, Draft, Message, Receipt
    from skep.model.operation import Ack, Extend, Push, Settlement, Transaction, Verdict
    from skep.model.queue import Queue, QueueOptions

_HOMES = {
    "Ack": "skep.model.operation",
    "AsyncClient": "skep.client.async_client",
    "AsyncConsumer": "skep.client.consume.async_worker",
    "AsyncProducer": "skep.client.produce.async_producer",
    "Broker": "skep.core.broker",
    "Client": "skep.client.sync_client",
    "Consumer": "skep.client.consume.sync_consumer",
    "Delivery": "skep.model.message",
    "Draft": "skep.model.message",
    "Extend": "skep.model.operation",
    "KeyRing": "skep.core.log.encryption",
    "Limits": "skep.core.limits",
    "Message": "skep.model.message",
    "Push": "skep.model.operation",
    "Queue": "skep.model.queue",
    "QueueOptions": "skep.model.queue",
    "Receipt": "skep.model.message",
    "Retry": "skep.client.retry",
    "Settlement": "skep.model.operation",
    "Transaction": "skep.model.operation",
    "Verdict": "skep.model.operation",
    "open": "skep.embedded",
    "restore": "skep.embedded",
}
"""Where each public name is; ``errors`` is a module of its own."""

__all__ = [
    "Ack",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncProducer",
    "Broker",
    "Client",
    "Consumer",
    "Delivery",
    "Draft",
    "Extend",
    "KeyRing",
    "Limits",
    "Message",
    "Push",
    "Queue",
    "QueueOptions",
    "Receipt",
    "Retry",
    "Settlement",
    "Transaction",
    "Verdict",
    "errors",
    "open",
    "restore",
]


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("skep.errors")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    # From now on it is found without coming here.
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
