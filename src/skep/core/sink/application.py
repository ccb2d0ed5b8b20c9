"""Applications that commit versions: which caller may, and which version may come next."""

from skep.core.sink.manifest import Fingerprint, SinkVersion
from skep.errors import Conflict, Forbidden

MAX_FIRST_VERSION = 1 << 53
MAX_VERSION_STEP = 1 << 32
"""The largest step between versions. They need not be consecutive: a stream skips epochs without
rows, a batch job may count in milliseconds."""


def check_owner(app: str, owner: str | None, caller: str | None) -> None:
    """Raise ``Forbidden`` unless the caller is the owner, if there is one."""
    if owner not in (None, caller):
        raise Forbidden(
            f"application {app!r} belongs to another key or subject; "
            f"to release it: skep application reset {app!r}"
        )


def check_next(sink_version: SinkVersion, last: int | None, *, rows: int) -> None:
    """Raise ``Conflict`` for a version so high that it would exhaust the numbers."""
    if sink_version.version is None:
        return
    if last is None:
        most, rule = MAX_FIRST_VERSION, f"the first version is at most {MAX_FIRST_VERSION}"
    elif rows:
        most, rule = last + MAX_VERSION_STEP, f"a version is at most {MAX_VERSION_STEP} higher"
    else:
        most, rule = last + 1, "a version without rows is the next one"
    if sink_version.version > most:
        after = "" if last is None else f" after version {last}"
        raise Conflict(
            f"application {sink_version.app!r} cannot commit version "
            f"{sink_version.version}{after}: {rule}"
        )


def check_repeated(
    sink_version: SinkVersion,
    last: int,
    known: Fingerprint | None,
    mine: Fingerprint,
    problem: str | None,
) -> None:
    """Raise ``Conflict`` if a version is not the repetition that its number says."""
    number = sink_version.number
    advice = (
        "Give each query its own checkpoint and its own txnAppId. To let the application start "
        f"over on purpose: skep application reset {sink_version.app!r}"
    )
    if number < last:
        raise Conflict(
            f"application {sink_version.app!r} has committed version {last} and cannot go "
            f"back to version {number}: its checkpoint is a new one or an old copy, or another "
            f"query uses the same txnAppId. {advice}"
        )
    if known is None or (problem and known.stages == mine.stages):
        return  # its chunks were deleted when it was published
    if problem:
        raise Conflict(problem)
    if not known.is_of(mine):
        raise Conflict(
            f"version {number} of application {sink_version.app!r} was committed with other rows: "
            f"{known.rows} then, {mine.rows} now. Another query uses the same txnAppId, or a copy "
            f"of its checkpoint. {advice}"
        )
