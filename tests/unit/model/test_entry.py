"""What may be the key of an entry."""

import pytest

from skep.errors import Invalid
from skep.model.entry import MAX_KEY_BYTES, check_key


@pytest.mark.parametrize("key", ["", "total", "a\nb", "x" * MAX_KEY_BYTES])
def test_a_text_is_a_key(key: str) -> None:
    assert check_key("key", key) == key


@pytest.mark.parametrize("key", [None, b"total", "a\x00b", "ä" * MAX_KEY_BYTES])
def test_what_cannot_be_stored_is_no_key(key: object) -> None:
    with pytest.raises(Invalid) as caught:
        check_key("key", key)

    assert caught.value.field == "key"
