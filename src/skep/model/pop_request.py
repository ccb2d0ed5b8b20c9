"""What a consumer asks for in a pop."""

from datetime import datetime
from typing import Self

import msgspec
from msgspec.structs import replace

from skep.errors import Invalid
from skep.model.name import (
    QUEUE_MODE,
    check_label,
    check_name,
    check_queue_name,
    from_datetime,
)

SUBSCRIPTION_MODES = ("all", "new")


class PopRequest(msgspec.Struct, frozen=True, kw_only=True):
    """From one queue, or from the queues with a namespace or a task."""

    queue: str | None = None
    group: str = QUEUE_MODE
    partition: str | None = None
    namespace: str | None = None
    task: str | None = None
    batch: int = 1
    partitions: int = 1
    wait: float = 0
    auto_ack: bool = False
    lease_seconds: int | None = None
    subscription_mode: str = "all"
    subscription_from: datetime | None = None

    def checked(self) -> Self:
        """The request with plain names; ``Invalid`` for what no server accepts.

        What exceeds limits is not rejected here: they depend on the server.
        """
        self._check_combination()
        return replace(
            self,
            queue=None if self.queue is None else check_queue_name("queue", self.queue),
            partition=check_label("partition", self.partition),
            namespace=check_label("namespace", self.namespace),
            task=check_label("task", self.task),
            group=check_name("group", self.group),
        )

    def _check_combination(self) -> None:
        if (self.queue is None) == (self.namespace is None and self.task is None):
            raise Invalid("queue", "name a queue, or a namespace or task instead of it")
        if self.partition is not None and self.queue is None:
            raise Invalid("partition", "needs a queue")
        if type(self.auto_ack) is not bool:
            raise Invalid("auto_ack", f"must be true or false, not {self.auto_ack!r}")
        if self.subscription_mode not in SUBSCRIPTION_MODES:
            modes = ", ".join(SUBSCRIPTION_MODES)
            raise Invalid("subscription_mode", f"{self.subscription_mode!r} is none of {modes}")
        if self.subscription_from is not None:
            from_datetime("subscription_from", self.subscription_from)

    def check_wait(self, most: float) -> None:
        if type(self.wait) not in (int, float) or not 0 <= self.wait <= most:
            raise Invalid("wait", f"must be 0 to {most} seconds, not {self.wait!r}")
