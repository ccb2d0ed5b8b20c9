"""What a run of a pipeline may say of itself."""

from datetime import UTC, datetime
from typing import Any

import pytest

from skep.errors import Invalid
from skep.model.pipeline import MAX_NAMES, MAX_TEXT, PipelineRun, check_run

AWARE = datetime(2030, 1, 1, tzinfo=UTC)
FIELDS: dict[str, Any] = {
    "id": "archive-1",
    "pipeline": "archive",
    "state": "running",
    "host": "localhost",
    "started_at": AWARE,
}


@pytest.mark.parametrize(
    "fields", [{}, {"queues": ("orders",), "groups": ("archive",), "error": "x" * MAX_TEXT}]
)
def test_a_run_is_accepted(fields: dict[str, Any]) -> None:
    check_run(PipelineRun(**FIELDS | fields))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", ""),
        ("pipeline", ""),
        ("host", ""),
        ("queues[1]", ("orders", "")),
        ("groups", ("archive",) * (MAX_NAMES + 1)),
        ("state", "lost"),
        ("messages", -1),
        ("batches", -1),
        ("target", "x" * (MAX_TEXT + 1)),
        ("error", "x" * (MAX_TEXT + 1)),
        ("started_at", AWARE.replace(tzinfo=None)),
    ],
)
def test_a_field_that_cannot_be_stored_is_named(field: str, value: Any) -> None:
    with pytest.raises(Invalid) as caught:
        check_run(PipelineRun(**FIELDS | {field.partition("[")[0]: value}))

    assert caught.value.field == field
