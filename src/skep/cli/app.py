"""``skep``: how it starts."""

import sys


def main() -> None:
    """Run a command. Errors that are ours are one line; anything else is a bug and shows itself."""
    try:
        from skep.cli.root import app
    except ImportError as missing:
        sys.exit(f"skep: install skep[cli] for the command line ({missing.name} is missing)")
    app(prog_name="skep")
