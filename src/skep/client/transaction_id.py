"""Names for drafts that have none."""

from collections.abc import Sequence
from secrets import token_urlsafe

from skep.model.message import Draft


def with_ids(drafts: Sequence[Draft]) -> Sequence[Draft]:
    """The drafts, each with a transaction id that no other push has.

    The random part is drawn anew for each push, not once per process: a process that forks
    must not give the same names to other messages than its parent does.
    """
    if all(draft.transaction_id is not None for draft in drafts):
        return drafts
    stem = token_urlsafe(12)
    return [
        draft
        if draft.transaction_id is not None
        else Draft(draft.payload, draft.partition, f"{stem}-{index}", draft.trace_id)
        for index, draft in enumerate(drafts)
    ]
