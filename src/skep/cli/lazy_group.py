"""Commands that are known by name, and loaded when somebody wants one."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup

from skep.cli.exit_code import FAILED, complain


@dataclass(frozen=True, slots=True)
class Later:
    """A command, or a group of them, and what the help says as long as it is not loaded."""

    home: str
    """The module below ``skep.cli``, and what it is called there."""
    help: str

    def load(self, name: str) -> Any:
        module, _, attribute = self.home.partition(":")
        found = getattr(import_module(f"skep.cli.{module}"), attribute)
        above = typer.Typer(add_completion=False, rich_markup_mode=None)
        above.callback()(lambda: None)
        if isinstance(found, typer.Typer):
            above.add_typer(found, name=name, help=self.help)
        else:
            above.command(name)(found)
        return typer.main.get_group(above).commands[name]


class LaterCommands(TyperGroup):
    """A group that loads a command when it is asked for it, and none to list them."""

    later: ClassVar[Mapping[str, Later]] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # The names are there, for the list and for suggestions; a command is None before it is
        # loaded.
        self.commands: Any = dict.fromkeys(self.later) | dict(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self.commands and self.commands[cmd_name] is None:
            self.commands[cmd_name] = self._load(cmd_name)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.help) for name, each in self.later.items()])

    def _load(self, name: str) -> Any:
        try:
            return self.later[name].load(name)
        except ModuleNotFoundError as missing:
            if (missing.name or "skep").startswith("skep"):
                raise
            complain(f"skep {name} needs {missing.name}; install skep[all]")
            raise typer.Exit(FAILED) from None
