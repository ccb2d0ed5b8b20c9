"""Files with secrets, which other users of the machine must not access."""

import stat
from pathlib import Path

from skep.errors import Invalid


def check_private(field: str, path: str | Path) -> None:
    """Raise ``Invalid`` if every user of the machine may read or write a file that exists."""
    _check(field, path, stat.S_IROTH | stat.S_IWOTH, "read or written")


def check_unwritable(field: str, path: str | Path) -> None:
    """Raise ``Invalid`` if every user of the machine may write a file that exists."""
    _check(field, path, stat.S_IWOTH, "written")


def _check(field: str, path: str | Path, forbidden: int, how: str) -> None:
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return  # reading it will say why
    if mode & forbidden:
        raise Invalid(field, f"{path} can be {how} by every user: run chmod 600 {path}")
