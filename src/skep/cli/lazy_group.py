"""Commands that are imported when they are run, so that the help is fast."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup

from skep.cli.exit_code import FAILED, print_error


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command or a group of commands, with the help text to show before it is loaded."""

    location: str
    """``module:attribute``, below ``skep.cli``."""
    help: str

    def load(self, name: str) -> Any:
        """Import the command."""
        module, _, attribute = self.location.partition(":")
        command = getattr(import_module(f"skep.cli.{module}"), attribute)
        parent = typer.Typer(add_completion=False, rich_markup_mode=None)
        parent.callback()(lambda: None)
        if isinstance(command, typer.Typer):
            parent.add_typer(command, name=name, help=self.help)
        else:
            parent.command(name)(command)
        return typer.main.get_group(parent).commands[name]


class LazyGroup(TyperGroup):
    """A group that imports a command when it is run, and none to list them."""

    lazy_commands: ClassVar[Mapping[str, LazyCommand]] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # The names are needed for the list and for suggestions; a command is None until loaded.
        self.commands: Any = dict.fromkeys(self.lazy_commands) | dict(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self.commands and self.commands[cmd_name] is None:
            self.commands[cmd_name] = self._load(cmd_name)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in self.lazy_commands.items()])

    def _load(self, name: str) -> Any:
        try:
            return self.lazy_commands[name].load(name)
        except ModuleNotFoundError as missing:
            if (missing.name or "skep").startswith("skep"):
                raise
            print_error(f"skep {name} needs {missing.name}; install skep[all]")
            raise typer.Exit(FAILED) from None
