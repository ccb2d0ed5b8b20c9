"""Transaction ids for drafts that have none."""

from collections.abc import Sequence
from secrets import token_urlsafe

from skep.model.message import Draft


def with_ids(drafts: Sequence[Draft]) -> Sequence[Draft]:
    """Return the drafts, each with a transaction id that is unique to this push if it had none.

    The random part is drawn for each push, not once per process: a forked process must not
    give the ids of its parent to other messages.
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
