"""Names of fields in errors: as paths, and as they were sent."""

import pytest

from skep.errors import FieldPath, Invalid, TooLarge
from skep.wire.field_path import to_request


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ("queue", ("queue",)),
        ("drafts[3]", ("drafts", 3)),
        ("operations[0].drafts[12].trace_id", ("operations", 0, "drafts", 12, "trace_id")),
    ],
)
def test_a_field_is_a_path(field: str, path: FieldPath) -> None:
    error = Invalid(field, "is wrong")

    assert error.path == path
    assert str(Invalid("elsewhere", "is wrong").at(path)) == f"{field}: is wrong"


def test_an_error_in_a_part_names_the_whole() -> None:
    error = TooLarge("payload", "is long").within("items", 2)

    assert (type(error), error.field) == (TooLarge, "items[2].payload")


@pytest.mark.parametrize(
    ("field", "sent"),
    [
        ("drafts[1].trace_id", "items[7].traceId"),
        ("drafts[10].trace_id", "items.10.traceId"),
        ("drafts", "items"),
        ("trace_id", "traceId"),
        ("key 'a.b[1]'", "key 'a.b[1]'"),
    ],
)
def test_the_longest_known_prefix_is_replaced(field: str, sent: str) -> None:
    origins: dict[FieldPath, FieldPath] = {
        ("drafts",): ("items",),
        ("drafts", 1): ("items", 7),
        ("drafts", 10): ("items", "10"),
    }

    error = to_request(Invalid(field, "is wrong"), {"trace_id": "traceId"}, origins)

    assert error.field == sent
