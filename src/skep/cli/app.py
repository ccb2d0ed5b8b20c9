"""``skep``: the commands, and how they end."""

import sys

from skep.errors import SkepError, Unavailable

EXIT_FAILED = 1
EXIT_UNAVAILABLE = 3


def main() -> None:
    """Run a command. Errors that are ours are one line; anything else is a bug and shows itself."""
    try:
        from skep.cli.commands import app
    except ImportError as missing:
        sys.exit(f"skep: install skep[server] for the command line ({missing.name} is missing)")
    try:
        app()
    except SkepError as error:
        sys.stderr.write(f"skep: {error}\n")
        sys.exit(EXIT_UNAVAILABLE if isinstance(error, Unavailable) else EXIT_FAILED)
