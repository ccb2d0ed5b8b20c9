"""Two servers of one store behind a balancer: every call goes to the next of them."""

from collections.abc import Callable
from itertools import cycle
from typing import Any, cast

from skep import Broker


class _Alternating:
    """Stands for what two brokers have at the same place."""

    def __init__(self, take: Callable[[], Broker], last: Callable[[], Broker], path: str) -> None:
        self._take = take
        self._last = last
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        path = f"{self._path}.{name}" if self._path else name
        found = _at(self._last(), path)
        if callable(found) and not isinstance(found, type):
            return lambda *args, **kwargs: _at(self._take(), path)(*args, **kwargs)
        if type(found).__module__.startswith("skep.core."):
            return _Alternating(self._take, self._last, path)
        return found


def alternating(*brokers: Broker) -> Broker:
    """A broker whose calls go to each of some brokers in turn."""
    turns = cycle(brokers)
    last = brokers[0]

    def take() -> Broker:
        nonlocal last
        last = next(turns)
        return last

    return cast("Broker", _Alternating(take, lambda: last, ""))


def _at(broker: Broker, path: str) -> Any:
    found: Any = broker
    for name in path.split("."):
        found = getattr(found, name)
    return found
