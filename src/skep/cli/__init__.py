"""The command line."""

from skep.cli.app import main

__all__ = ["main"]
