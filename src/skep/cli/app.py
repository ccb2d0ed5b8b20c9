"""Entry point of ``skep``."""

import sys


def main() -> None:
    """Run a command. A ``SkepError`` is printed as one line; any other error is a bug."""
    try:
        from skep.cli.root import app
    except ImportError as missing:
        sys.exit(f"skep: install skep[cli] for the command line ({missing.name} is missing)")
    app(prog_name="skep")
