"""The drafts of one push: checked, and grouped by partition."""

from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from uuid import UUID, uuid4

from skep.core.limits import Limits
from skep.errors import Invalid
from skep.model.change import CHANGE_WEIGHT, Appended, weight_of
from skep.model.message import Draft, Receipt, Receipts
from skep.model.name import check_name, check_queue_name, check_transaction_id


class PushBatch:
    """The drafts of one push to one queue, checked, and grouped by partition.

    Columns are extracted once and checked as a whole, which costs least per message.
    """

    def __init__(
        self, queue: str, drafts: Sequence[Draft], limits: Limits, *, internal: bool = False
    ) -> None:
        self.queue = queue if internal else check_queue_name("queue", queue)
        if not isinstance(drafts, Sequence):
            raise Invalid("drafts", f"must be a sequence, not {type(drafts).__name__}")
        if not drafts or len(drafts) > limits.push_messages:
            raise Invalid(
                "drafts", f"must be 1 to {limits.push_messages} messages, not {len(drafts)}"
            )
        try:
            self.payloads = [draft.payload for draft in drafts]
            self.ids = [draft.transaction_id for draft in drafts]
            self.traces = [draft.trace_id for draft in drafts]
            names = [draft.partition for draft in drafts]
        except AttributeError:
            raise Invalid("drafts", "must all be of type Draft") from None
        size = self._check_payloads(limits.payload_bytes)
        self._check_ids()
        self._sent_ids = self.ids
        self.weight = CHANGE_WEIGHT + weight_of(len(drafts), size)
        self.by_partition = _by_partition(names)

    def __len__(self) -> int:
        return len(self.payloads)

    def choose_ids(self, *, encrypted: bool) -> None:
        """Give an id to each draft that has none, if they are encrypted.

        An encrypted payload is bound to its transaction id, so it needs one before its offset.
        """
        if encrypted:
            self.ids = [chosen or str(uuid4()) for chosen in self._sent_ids]
        else:
            self.ids = self._sent_ids

    def receipts(self, appended: Sequence[Appended]) -> Sequence[Receipt]:
        """Where each draft is, in the order in which they were given."""
        if len(self.by_partition) == 1:
            (name,) = self.by_partition
            return Receipts(name, appended[0], self.ids)
        made = [
            Receipts(name, places, [self.ids[index] for index in indexes])
            for (name, indexes), places in zip(self.by_partition.items(), appended, strict=True)
        ]
        ordered = zip(chain(*self.by_partition.values()), chain(*made), strict=True)
        return [receipt for _, receipt in sorted(ordered, key=itemgetter(0))]

    def _check_payloads(self, payload_bytes: int) -> int:
        """Return their total size in bytes."""
        payloads = self.payloads
        if set(map(type, payloads)) != {bytes}:
            index = next(i for i, payload in enumerate(payloads) if type(payload) is not bytes)
            raise Invalid(
                f"drafts[{index}].payload", f"must be bytes, not {type(payloads[index]).__name__}"
            )
        # No payload is larger than all of them: mostly there is nothing to look for.
        if (size := sum(map(len, payloads))) > payload_bytes:
            for index, payload in enumerate(payloads):
                if len(payload) > payload_bytes:
                    raise Invalid(
                        f"drafts[{index}].payload",
                        f"is {len(payload)} bytes long, at most {payload_bytes} are allowed",
                    )
        return size

    def _check_ids(self) -> None:
        if self.ids.count(None) != len(self.ids):
            for index, chosen in enumerate(self.ids):
                if chosen is not None:
                    self.ids[index] = check_transaction_id(
                        f"drafts[{index}].transaction_id", chosen
                    )
        if self.traces.count(None) != len(self.traces):
            for index, trace in enumerate(self.traces):
                if trace is not None and (not isinstance(trace, UUID) or not trace.int):
                    raise Invalid(f"drafts[{index}].trace_id", "must be a UUID other than nil")


def _by_partition(names: list[str]) -> dict[str, Sequence[int]]:
    if names.count(names[0]) == len(names):
        return {check_name("drafts[0].partition", names[0]): range(len(names))}
    indexes: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        known = indexes.get(name) if type(name) is str else None
        if known is None:
            known = indexes.setdefault(check_name(f"drafts[{index}].partition", name), [])
        known.append(index)
    return dict(indexes)
