"""The file of encryption keys. Errors never contain its content."""

import re
from pathlib import Path

from skep.core.log.encryption import KeyRing
from skep.errors import Invalid
from skep.http.auth.private_file import check_private

_FIELD = "encryption_keys"
_KEY = re.compile(r"[0-9a-fA-F]{64}")


def read_encryption_keys(path: str | None) -> KeyRing | None:
    """Read the keys of a file, one ``id:64 hex digits`` per line; the first one encrypts."""
    if path is None:
        return None
    check_private(_FIELD, path)
    try:
        lines = Path(path).read_text().splitlines()
    except OSError as error:
        raise Invalid(_FIELD, f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Invalid(_FIELD, f"{path} is not text") from None
    keys: dict[str, bytes] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            key_id, key = _parse(f"line {number} of {path}", line.strip())
            if key_id in keys:
                raise Invalid(_FIELD, f"line {number} of {path} repeats the id of another key")
            keys[key_id] = key
    if not keys:
        raise Invalid(_FIELD, f"{path} holds no key")
    return KeyRing(keys, current=next(iter(keys)))


def _parse(where: str, line: str) -> tuple[str, bytes]:
    key_id, _, digits = line.partition(":")
    if not _KEY.fullmatch(digits):
        raise Invalid(_FIELD, f"{where} must be id:key, with 64 hex digits as the key")
    # An id is stored and displayed: it must not be a key.
    if not key_id or len(key_id) > 255 or not key_id.isprintable() or _KEY.search(key_id):
        raise Invalid(_FIELD, f"{where} must begin with an id that is not a key itself")
    return key_id, bytes.fromhex(digits)
