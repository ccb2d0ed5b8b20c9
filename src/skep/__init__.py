"""A partitioned message queue that you can trust with orders and payments."""

from skep import errors
from skep.client.async_client import AsyncClient
from skep.client.consumer import AsyncConsumer
from skep.client.producer import AsyncProducer
from skep.client.retry import Retry
from skep.client.sync_client import Client
from skep.client.sync_loop import Consumer
from skep.core.broker import Broker
from skep.core.encryption import KeyRing
from skep.core.limits import Limits
from skep.embedded import open, restore
from skep.model.message import Delivery, Draft, Message, Receipt
from skep.model.operation import Ack, Extend, Push, Settlement, Transaction, Verdict
from skep.model.queue import Queue, QueueOptions

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
