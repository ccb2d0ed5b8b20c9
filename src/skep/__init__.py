"""A partitioned message queue that you can trust with orders and payments."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Each name is imported on first use: a program that uses only a client neither waits for the broker
# and its store nor needs their dependencies. Type checkers and editors cannot follow `__getattr__`,
# so they read the imports; a test keeps the two lists equal.
if TYPE_CHECKING:
    from skep import errors
    from skep.client.async_client import AsyncClient
    from skep.client.consume.async_consumer import AsyncConsumer
    from skep.client.consume.async_worker import AsyncWorker
    from skep.client.consume.sync_consumer import Consumer
    from skep.client.consume.worker import Worker
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

_MODULES = {
    "Ack": "skep.model.operation",
    "AsyncClient": "skep.client.async_client",
    "AsyncConsumer": "skep.client.consume.async_consumer",
    "AsyncProducer": "skep.client.produce.async_producer",
    "AsyncWorker": "skep.client.consume.async_worker",
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
    "Worker": "skep.client.consume.worker",
    "open": "skep.embedded",
    "restore": "skep.embedded",
}
"""The module of each public name; ``errors`` is a module itself."""

__all__ = [
    "Ack",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncWorker",
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
    "Worker",
    "errors",
    "open",
    "restore",
]


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("skep.errors")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    # The next access does not call this function.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
