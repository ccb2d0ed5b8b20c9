"""API keys: making, checking and revoking them."""

import json
import os
import re
import stat
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from skep.errors import Conflict, Invalid, NotFound, Unauthenticated
from skep.http.auth.api_key import CHECK_SECONDS, ApiKeys, NewKey, create_key, read_keys
from skep.http.auth.api_key_file import add_key, revoke_key
from skep.http.auth.principal import Permission
from skep.testing.clock import ManualClock
from tests.support.http.token_signing import seconds

UNKNOWN = "unknown or revoked API key"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


@pytest.fixture
def open_keys(path: Path, clock: ManualClock) -> Callable[[], ApiKeys]:
    return lambda: ApiKeys(path, now=lambda: seconds(clock))


def stored(path: Path, *roles: str, **other: Any) -> NewKey:
    """A new key that is in the file."""
    key = create_key(roles or ("producer",), **other)
    add_key(path, key.entry)
    return key


def refusal(keys: ApiKeys, text: str) -> str:
    with pytest.raises(Unauthenticated) as refused:
        keys.verify(text.encode())
    return str(refused.value)


def later(clock: ManualClock) -> None:
    clock.advance(CHECK_SECONDS)


# Making.


def test_a_key_has_256_bits_of_chance_and_only_its_hash_is_kept() -> None:
    key = create_key(["producer"])

    form = re.fullmatch(r"skep_([0-9a-z]+)_([0-9a-f]{64})", key.text)

    assert form is not None
    assert key.entry.id == form[1]
    assert key.entry.hash == sha256(form[2].encode()).hexdigest()
    assert form[2] not in repr(key)


def test_no_two_keys_are_alike() -> None:
    made = [create_key(["producer"]) for _ in range(100)]

    assert len({key.text for key in made}) == 100
    assert len({key.entry.id for key in made}) == 100


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"roles": ["produser"]}, "roles"),
        ({"roles": []}, "roles"),
        ({"roles": ["producer"], "queues": [""]}, "queues"),
        ({"roles": ["producer"], "subject": "a\nb"}, "subject"),
        ({"roles": ["producer"], "expires_at": datetime(2030, 1, 1)}, "expires_at"),  # noqa: DTZ001
    ],
)
def test_a_key_that_would_be_refused_later_cannot_be_made(
    given: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        create_key(**given)

    assert refused.value.field == field


# Checking.


def test_a_key_is_who_its_entry_says(path: Path, open_keys: Callable[[], ApiKeys]) -> None:
    key = stored(path, "producer", "consumer", queues=["orders", "mail-*"], subject="billing")

    principal = open_keys().verify(key.text.encode())

    assert principal.subject == "billing"
    assert principal.permissions == {Permission.PUSH, Permission.POP}
    assert principal.queues == ("orders", "mail-*")


def test_a_key_without_queues_is_for_all_of_them(
    path: Path, open_keys: Callable[[], ApiKeys]
) -> None:
    key = stored(path)

    principal = open_keys().verify(key.text.encode())

    assert not principal.restricted
    assert principal.subject is None


def test_a_key_for_no_queue_sees_none(path: Path, open_keys: Callable[[], ApiKeys]) -> None:
    key = stored(path, queues=[])

    principal = open_keys().verify(key.text.encode())

    assert principal.restricted
    assert not principal.sees("orders")


def test_a_key_with_another_secret_or_another_id_is_refused(
    path: Path, open_keys: Callable[[], ApiKeys]
) -> None:
    one, two = stored(path), stored(path)
    secret = one.text.rpartition("_")[2]
    keys = open_keys()

    mixed = refusal(keys, f"skep_{two.entry.id}_{secret}")
    unknown = refusal(keys, f"skep_none_{secret}")
    hashed = refusal(keys, f"skep_{one.entry.id}_{one.entry.hash}")

    assert (mixed, unknown, hashed) == (UNKNOWN, UNKNOWN, UNKNOWN)


def test_the_hash_of_nothing_opens_nothing(path: Path, open_keys: Callable[[], ApiKeys]) -> None:
    stored(path)

    keys = open_keys()

    assert refusal(keys, f"skep_none_{'0' * 64}") == UNKNOWN
    assert refusal(keys, "skep_none_") == UNKNOWN


@pytest.mark.parametrize("text", ["skep_", "skep_a", "skep_a_b_c", "skep_é", ""])
def test_what_does_not_look_like_a_key_is_refused(
    text: str, path: Path, open_keys: Callable[[], ApiKeys]
) -> None:
    stored(path)

    keys = open_keys()

    assert refusal(keys, text) == "an API key has the form skep_<id>_<secret>"


def test_a_key_works_until_it_expires(
    path: Path, open_keys: Callable[[], ApiKeys], clock: ManualClock
) -> None:
    end = datetime(2030, 1, 1, 13, 1, tzinfo=timezone(timedelta(hours=1)))
    key = stored(path, expires_at=end)
    keys = open_keys()
    clock.advance(59.9)
    keys.verify(key.text.encode())

    clock.advance(0.1)

    assert end.astimezone(UTC).minute == 1
    assert refusal(keys, key.text) == "the API key has expired"


# The file.


def test_the_file_is_for_the_eyes_of_its_owner_only(path: Path) -> None:
    before = os.umask(0)
    try:
        key = stored(path)
        path.chmod(0o644)
        stored(path)
    finally:
        os.umask(before)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert key.text.rpartition("_")[2] not in path.read_text()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_the_file_can_be_read_by_people(path: Path) -> None:
    key = stored(path, queues=["orders"], expires_at=datetime(2031, 1, 1, tzinfo=UTC))

    (entry,) = json.loads(path.read_text())

    assert entry == {
        "id": key.entry.id,
        "hash": key.entry.hash,
        "roles": ["producer"],
        "queues": ["orders"],
        "expires_at": "2031-01-01T00:00:00Z",
    }
    assert path.read_text().count("\n") > 5


def test_a_revoked_key_stops_working_within_seconds(
    path: Path, open_keys: Callable[[], ApiKeys], clock: ManualClock
) -> None:
    revoked, other = stored(path), stored(path)
    keys = open_keys()
    keys.verify(revoked.text.encode())

    revoke_key(path, revoked.entry.id)
    later(clock)

    assert refusal(keys, revoked.text) == UNKNOWN
    assert keys.verify(other.text.encode())


def test_a_new_key_works_within_seconds(
    path: Path, open_keys: Callable[[], ApiKeys], clock: ManualClock
) -> None:
    stored(path)
    keys = open_keys()
    key = stored(path)
    too_early = refusal(keys, key.text)

    later(clock)

    assert too_early == UNKNOWN
    assert keys.verify(key.text.encode())


def test_a_clock_that_is_set_back_does_not_keep_a_revoked_key_alive(
    path: Path, open_keys: Callable[[], ApiKeys], clock: ManualClock
) -> None:
    key = stored(path)
    keys = open_keys()
    revoke_key(path, key.entry.id)

    clock.advance(-3600)

    assert refusal(keys, key.text) == UNKNOWN


def test_the_last_key_can_be_revoked(path: Path, open_keys: Callable[[], ApiKeys]) -> None:
    key = stored(path)

    revoke_key(path, key.entry.id)

    assert read_keys(path) == ()
    assert refusal(open_keys(), key.text) == UNKNOWN


def test_a_file_that_breaks_later_leaves_the_keys_as_they_were_and_says_so_once(
    path: Path,
    open_keys: Callable[[], ApiKeys],
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    key = stored(path)
    keys = open_keys()
    path.write_text('[{"id": "broken"}]')

    for _ in range(3):
        later(clock)
        keys.verify(key.text.encode())

    (line,) = caplog.messages
    assert "api_keys[0].hash: is required" in line


@pytest.mark.parametrize("content", [None, "", "["])
def test_a_file_that_goes_away_leaves_the_keys_as_they_were(
    content: str | None, path: Path, open_keys: Callable[[], ApiKeys], clock: ManualClock
) -> None:
    key = stored(path)
    keys = open_keys()
    path.unlink()
    if content is not None:
        path.write_text(content)

    later(clock)

    assert keys.verify(key.text.encode())


def test_a_broken_file_that_is_mended_is_read_again(
    path: Path, open_keys: Callable[[], ApiKeys], clock: ManualClock
) -> None:
    revoked = stored(path)
    keys = open_keys()
    path.write_text("[")
    later(clock)
    keys.verify(revoked.text.encode())

    path.write_text("[]")
    later(clock)

    assert refusal(keys, revoked.text) == UNKNOWN


HASH = "0" * 64
KEY = {"id": "a", "hash": HASH, "roles": ["admin"]}


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ("", "api_keys"),
        ("not JSON", "api_keys"),
        ("{}", "api_keys"),
        ([1], "api_keys[0].body"),
        ([{"id": "a", "hash": HASH}], "api_keys[0].roles"),
        ([KEY | {"principal": "a_b"}], "api_keys[0].principal"),
        ([KEY | {"quota": 1}], "api_keys[0].quota"),
        ([KEY | {"quota": {"queues": -1}}], "api_keys[0].quota.queues"),
        ([KEY | {"quota": {"queues": "1"}}], "api_keys[0].quota.queues"),
        ([KEY | {"quota": {"queue": 1}}], "api_keys[0].quota.queue"),
        ([{"id": "a", "roles": ["admin"]}], "api_keys[0].hash"),
        ([{"hash": HASH, "roles": ["admin"]}], "api_keys[0].id"),
        ([{"id": "a_b", "hash": HASH, "roles": ["admin"]}], "api_keys[0].id"),
        ([{"id": "a\n", "hash": HASH, "roles": ["admin"]}], "api_keys[0].id"),
        ([{"id": "a", "hash": "secret", "roles": ["admin"]}], "api_keys[0].hash"),
        ([{"id": "a", "hash": HASH, "roles": "admin"}], "api_keys[0].roles"),
        ([{"id": "a", "hash": HASH, "roles": ["root"]}], "api_keys[0].roles"),
        ([{"id": "a", "hash": HASH, "roles": ["admin"], "queues": "orders"}], "api_keys[0].queues"),
        (
            [{"id": "a", "hash": HASH, "roles": ["admin"], "expires_at": "2030-01-01T00:00:00"}],
            "api_keys[0].expires_at",
        ),
        ([{"id": "a", "hash": HASH, "roles": ["admin"]}] * 2, "api_keys"),
    ],
)
def test_a_file_that_is_broken_at_the_start_is_an_error_that_names_the_field(
    content: Any, field: str, path: Path, open_keys: Callable[[], ApiKeys]
) -> None:
    path.write_text(content if isinstance(content, str) else json.dumps(content))

    with pytest.raises(Invalid) as refused:
        open_keys()

    assert refused.value.field == field


def test_a_misspelt_field_does_not_make_a_key_that_is_for_every_queue(path: Path) -> None:
    path.write_text(
        json.dumps([{"id": "a", "hash": HASH, "roles": ["producer"], "queue": ["orders"]}])
    )

    with pytest.raises(Invalid, match=r"api_keys\[0\]\.queue: is not known here"):
        read_keys(path)


def test_a_file_that_is_not_there_is_an_error(open_keys: Callable[[], ApiKeys]) -> None:
    with pytest.raises(Invalid, match=r"api_keys: .*keys\.json cannot be read"):
        open_keys()


def test_an_id_cannot_be_added_twice(path: Path) -> None:
    key = stored(path)

    with pytest.raises(Conflict):
        add_key(path, key.entry)

    assert read_keys(path) == (key.entry,)


def test_a_key_that_is_not_there_cannot_be_revoked(path: Path) -> None:
    key = stored(path)

    with pytest.raises(NotFound, match="API key 'other' does not exist"):
        revoke_key(path, "other")

    assert read_keys(path) == (key.entry,)


def test_a_broken_file_is_not_written_over(path: Path) -> None:
    path.write_text("[{}]")

    with pytest.raises(Invalid):
        stored(path)

    assert path.read_text() == "[{}]"


def test_a_directory_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"api_keys: .*missing/keys\.json cannot be written"):
        stored(tmp_path / "missing" / "keys.json")


def test_a_link_stays_a_link(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(path)

    key = stored(link)

    assert link.is_symlink()
    assert read_keys(path) == (key.entry,)


def test_keys_added_at_the_same_time_are_all_kept(path: Path) -> None:
    made = [create_key(["producer"]).entry for _ in range(8)]
    adding = [threading.Thread(target=add_key, args=(path, entry)) for entry in made]

    for thread in adding:
        thread.start()
    for thread in adding:
        thread.join()

    assert {key.id for key in read_keys(path)} == {entry.id for entry in made}
