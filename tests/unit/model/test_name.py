"""What may be a name, an id, a number, an instant."""

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from skep.errors import Invalid
from skep.model.name import (
    RESERVED,
    check_count,
    check_id,
    check_label,
    check_lease_id,
    check_name,
    check_queue_name,
    check_transaction_id,
    from_datetime,
    to_datetime,
)

THREE_BYTES = "\N{HIRAGANA LETTER A}"
FOUR_BYTES = "\N{HONEYBEE}"
RANDOM = UUID("6f1c2b1e-9a64-4d0f-8a34-0c9d5e7f1a2b")


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "orders.eu",
        "with space",
        "a/b%2e%2e\\c",
        "'; DROP TABLE queues; --",
        "<script>",
        "../..",
        FOUR_BYTES,
        "\u202eright to left",
        "e\u0301",
        "x" * 255,
        THREE_BYTES * 85,
        FOUR_BYTES * 63 + "abc",
    ],
)
def test_a_name_may_be_any_text_of_at_most_255_bytes(name: str) -> None:
    assert check_name("queue", name) == name


@pytest.mark.parametrize(
    "name",
    ["", "x" * 256, THREE_BYTES * 86, FOUR_BYTES * 64, "\ud800", "a\udfffb"],
    ids=["empty", "256 bytes", "258 bytes", "256 bytes of 4", "surrogate", "surrogate within"],
)
def test_a_name_that_is_too_long_or_no_text_is_refused(name: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_name("queue", name)

    assert refused.value.field == "queue"


@pytest.mark.parametrize("code", [*range(0x20), *range(0x7F, 0xA0)])
def test_a_control_character_is_refused_wherever_it_stands(code: int) -> None:
    for name in (chr(code), f"{chr(code)}a", f"a{chr(code)}b", f"a{chr(code)}"):
        with pytest.raises(Invalid, match="partition: must not contain control characters"):
            check_name("partition", name)


@pytest.mark.parametrize("name", [None, 5, 1.5, b"orders", ["orders"], True, object()])
def test_what_is_not_a_string_is_not_a_name(name: object) -> None:
    with pytest.raises(Invalid, match="group: must be a string, not"):
        check_name("group", name)


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=63))
def test_a_name_is_taken_unchanged(name: str) -> None:
    assert check_name("task", name) == name


@pytest.mark.parametrize(
    "chosen", ["a", "\x00", "line\nbreak", "x" * 255, FOUR_BYTES * 255, "\u202e", " "]
)
def test_a_transaction_id_may_be_any_text_of_at_most_255_characters(chosen: str) -> None:
    assert check_transaction_id("transaction_id", chosen) == chosen


@pytest.mark.parametrize("chosen", ["", "x" * 256, "\ud800", None, 5, b"a", True])
def test_another_transaction_id_is_refused(chosen: object) -> None:
    with pytest.raises(Invalid) as refused:
        check_transaction_id("drafts[3].transaction_id", chosen)

    assert refused.value.field == "drafts[3].transaction_id"


def test_a_lease_id_is_a_uuid_in_its_usual_form() -> None:
    lease = RANDOM

    assert check_lease_id("lease", str(lease)) == str(lease)
    assert check_lease_id("lease", str(lease).upper()) == str(lease)


@pytest.mark.parametrize("lease", ["", "lease", "\ud800", None, 5, RANDOM, b"x" * 16, "9" * 9999])
def test_what_is_not_a_lease_id_is_refused(lease: object) -> None:
    with pytest.raises(Invalid) as refused:
        check_lease_id("lease", lease)

    assert refused.value.field == "lease"
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("value", [1, 2, 10])
def test_a_count_within_its_bounds_is_taken(value: int) -> None:
    assert check_count("limit", value, least=1, most=10) == value


@pytest.mark.parametrize("value", [0, -1, 11, 2**64, -(2**64), True, 1.0, "1", None, b"1"])
def test_a_count_out_of_bounds_or_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(Invalid) as refused:
        check_count("limit", value, least=1, most=10)

    assert refused.value.field == "limit"


@given(st.datetimes(timezones=st.just(UTC)))
def test_an_instant_is_a_moment_to_the_microsecond(moment: datetime) -> None:
    assert to_datetime(from_datetime("to", moment)) == moment


@pytest.mark.parametrize(
    "moment",
    [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)],
    ids=["the first", "the last"],
)
def test_the_first_and_the_last_moment_there_is_are_instants(moment: datetime) -> None:
    assert to_datetime(from_datetime("to", moment)) == moment


def test_a_moment_means_the_same_in_every_time_zone() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    elsewhere = noon.astimezone(timezone(timedelta(hours=5, minutes=30)))

    assert from_datetime("to", elsewhere) == from_datetime("to", noon)


@pytest.mark.parametrize(
    "moment",
    [
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
    ],
    ids=["before year 1", "after year 9999"],
)
def test_a_moment_that_has_no_date_in_utc_is_refused(moment: datetime) -> None:
    with pytest.raises(Invalid) as refused:
        from_datetime("to", moment)

    assert refused.value.field == "to"


@pytest.mark.parametrize("moment", [datetime(2030, 1, 1), 0, "2030-01-01", None])  # noqa: DTZ001
def test_a_moment_without_a_time_zone_is_refused(moment: object) -> None:
    with pytest.raises(Invalid) as refused:
        from_datetime("from_", moment)

    assert refused.value.field == "from_"


def test_a_client_may_not_name_a_queue_as_the_server_names_its_own() -> None:
    assert check_queue_name("queue", "orders") == "orders"
    with pytest.raises(Invalid, match="reserved"):
        check_queue_name("queue", f"{RESERVED}outbox")


def test_a_label_is_a_name_or_none() -> None:
    assert check_label("task", None) is None
    assert check_label("task", "mail") == "mail"
    with pytest.raises(Invalid):
        check_label("task", "")


def test_an_id_is_a_uuid() -> None:
    assert check_id("id", RANDOM) is RANDOM
    with pytest.raises(Invalid, match="must be a UUID, not str"):
        check_id("id", str(RANDOM))
