"""The envelope of an encrypted payload, and the ring of keys."""

import pytest
from hypothesis import given, strategies as st

from skep.core.log.encryption import VERSION, KeyRing, place_of
from skep.errors import DecryptionFailed, EncryptionUnavailable, Invalid

KEY = bytes(range(32))
OTHER_KEY = bytes(range(32, 64))
PLACE = place_of("orders", "alice", "t-1")
RING = KeyRing({"2030": KEY}, current="2030")
HEAD = bytes([VERSION, 4]) + b"2030"
NONCE, TAG = 12, 16
texts = st.text(max_size=20)

WRITTEN_BEFORE = bytes.fromhex(
    "010432303330"
    "000102030405060708090a0b"
    "3070bf6fb180ac3be42fb7b981da4853147b6b232542acddb2c9c965b6f39f"
)
"""An envelope under ``KEY`` at ``PLACE``, made by hand: what is on disk must stay readable."""


# The envelope.


@given(st.binary(max_size=2000))
def test_a_payload_comes_back_byte_for_byte(payload: bytes) -> None:
    assert RING.decrypt(RING.encrypt(payload, PLACE), PLACE) == payload


def test_an_envelope_names_its_format_and_its_key() -> None:
    envelope = RING.encrypt(b"payload", PLACE)

    assert envelope.startswith(HEAD)
    assert len(envelope) == len(HEAD) + NONCE + len(b"payload") + TAG


def test_an_envelope_does_not_hold_the_payload() -> None:
    assert b"4111 1111" not in RING.encrypt(b"card 4111 1111", PLACE)


def test_the_same_payload_never_looks_the_same() -> None:
    nonces = {RING.encrypt(b"same", PLACE)[len(HEAD) :][:NONCE] for _ in range(1000)}

    assert len(nonces) == 1000


def test_an_envelope_that_was_written_before_can_still_be_read() -> None:
    assert RING.decrypt(WRITTEN_BEFORE, PLACE) == b"written in 2030"


@pytest.mark.parametrize(
    "place",
    [
        place_of("orders2", "alice", "t-1"),
        place_of("orders", "bob", "t-1"),
        place_of("orders", "alice", "t-2"),
        place_of("orders", "alice", ""),
        b"",
    ],
    ids=["another queue", "another partition", "another id", "no id", "nowhere"],
)
def test_a_payload_that_was_moved_is_refused(place: bytes) -> None:
    envelope = RING.encrypt(b"payload", PLACE)

    with pytest.raises(DecryptionFailed, match="altered, or moved"):
        RING.decrypt(envelope, place)


@given(texts, texts, texts, texts, texts, texts)
def test_two_places_are_never_the_same_bytes(
    a: str, b: str, c: str, d: str, e: str, f: str
) -> None:
    assert (place_of(a, b, c) == place_of(d, e, f)) == ((a, b, c) == (d, e, f))


def test_names_do_not_run_into_each_other() -> None:
    assert place_of("ab", "c", "d") != place_of("a", "bc", "d")
    assert place_of("a", "bc", "d") != place_of("a", "b", "cd")


@pytest.mark.parametrize("at", range(len(HEAD) + NONCE + len(b"payload") + TAG))
def test_a_byte_that_was_changed_is_noticed_wherever_it_stands(at: int) -> None:
    envelope = bytearray(RING.encrypt(b"payload", PLACE))
    envelope[at] ^= 0x40

    with pytest.raises((DecryptionFailed, EncryptionUnavailable)):
        RING.decrypt(bytes(envelope), PLACE)


@pytest.mark.parametrize("length", range(len(HEAD) + NONCE + len(b"payload") + TAG))
def test_an_envelope_that_was_cut_short_is_refused(length: int) -> None:
    envelope = RING.encrypt(b"payload", PLACE)[:length]

    with pytest.raises((DecryptionFailed, EncryptionUnavailable)):
        RING.decrypt(envelope, PLACE)


@given(st.binary(max_size=100))
def test_bytes_that_never_were_an_envelope_are_refused(junk: bytes) -> None:
    with pytest.raises((DecryptionFailed, EncryptionUnavailable)):
        RING.decrypt(junk, PLACE)


def test_an_envelope_of_a_later_format_is_refused() -> None:
    envelope = RING.encrypt(b"payload", PLACE)

    with pytest.raises(DecryptionFailed, match="unknown format"):
        RING.decrypt(bytes([VERSION + 1]) + envelope[1:], PLACE)


def test_the_name_of_the_key_is_protected_too() -> None:
    twice = KeyRing({"2030": KEY, "2031": KEY}, current="2030")
    envelope = twice.encrypt(b"payload", PLACE)

    with pytest.raises(DecryptionFailed):
        twice.decrypt(envelope.replace(b"2030", b"2031"), PLACE)


# The ring.


def test_the_current_key_encrypts_and_every_key_decrypts() -> None:
    old = RING.encrypt(b"old", PLACE)
    rotated = KeyRing({"2030": KEY, "2031": OTHER_KEY}, current="2031")

    new = rotated.encrypt(b"new", PLACE)

    assert new[2:6] == b"2031"
    assert (rotated.decrypt(old, PLACE), rotated.decrypt(new, PLACE)) == (b"old", b"new")


def test_a_key_that_was_taken_away_is_named() -> None:
    without = KeyRing({"2031": OTHER_KEY}, current="2031")

    with pytest.raises(EncryptionUnavailable, match="key '2030' is not in the key ring"):
        without.decrypt(RING.encrypt(b"old", PLACE), PLACE)


def test_another_key_under_the_same_name_is_refused() -> None:
    wrong = KeyRing({"2030": OTHER_KEY}, current="2030")

    with pytest.raises(DecryptionFailed):
        wrong.decrypt(RING.encrypt(b"payload", PLACE), PLACE)


def test_a_ring_without_keys_encrypts_nothing() -> None:
    empty = KeyRing()

    with pytest.raises(EncryptionUnavailable, match="queue 'orders' is encrypted, but no key is"):
        empty.check("orders")
    with pytest.raises(EncryptionUnavailable, match="no key is configured"):
        empty.encrypt(b"payload", PLACE)


@pytest.mark.parametrize("key_id", ["k", "x" * 255, "\N{HONEYBEE}", "with space"])
def test_a_key_may_have_any_name_of_at_most_255_bytes(key_id: str) -> None:
    ring = KeyRing({key_id: KEY}, current=key_id)

    assert ring.decrypt(ring.encrypt(b"payload", PLACE), PLACE) == b"payload"


@pytest.mark.parametrize(
    "key_id",
    ["", "x" * 256, "\N{HONEYBEE}" * 64, "\ud800", 5, None],
    ids=["empty", "256 bytes", "256 bytes of 4", "surrogate", "number", "none"],
)
def test_a_key_with_another_name_is_refused(key_id: str) -> None:
    with pytest.raises(Invalid):
        KeyRing({key_id: KEY}, current=key_id)


@pytest.mark.parametrize(
    "key",
    [b"", bytes(16), bytes(24), bytes(31), bytes(33), "x" * 32, None, 32],
    ids=["empty", "128 bits", "192 bits", "31", "33", "text", "none", "number"],
)
def test_a_key_that_is_not_32_bytes_is_refused(key: bytes) -> None:
    with pytest.raises(Invalid) as refused:
        KeyRing({"2030": key}, current="2030")

    assert "2030" in refused.value.field


@pytest.mark.parametrize("current", [None, "2031", ""])
def test_the_current_key_must_be_in_the_ring(current: str | None) -> None:
    with pytest.raises(Invalid, match="current"):
        KeyRing({"2030": KEY}, current=current)


def test_a_current_key_without_any_keys_is_refused() -> None:
    with pytest.raises(Invalid, match="current"):
        KeyRing(current="2030")


def test_a_refusal_does_not_show_the_key() -> None:
    with pytest.raises(Invalid) as refused:
        KeyRing({"2030": b"secret"}, current="2030")

    assert "secret" not in str(refused.value)


def test_a_ring_shows_the_names_of_its_keys_and_nothing_of_them() -> None:
    ring = KeyRing({"b": OTHER_KEY, "a": KEY}, current="a")

    assert repr(ring) == str(ring) == "KeyRing(['a', 'b'], current='a')"


def test_a_ring_does_not_change_with_the_mapping_it_was_made_from() -> None:
    keys = {"2030": KEY}
    ring = KeyRing(keys, current="2030")
    envelope = ring.encrypt(b"payload", PLACE)

    keys.clear()

    assert ring.decrypt(envelope, PLACE) == b"payload"
