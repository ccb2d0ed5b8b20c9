"""``skep maintenance``: what a server does not do for a while."""

from enum import StrEnum
from typing import Annotated

import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.options import Json
from skep.model.maintenance import MaintenanceState

app = typer.Typer(no_args_is_help=True)


class Switch(StrEnum):
    ON = "on"
    OFF = "off"


To = Annotated[Switch, typer.Argument(help="on begins it, off ends it.")]


@app.command()
def show(url: Url = DEFAULT_URL, token: Token = None, as_json: Json = False) -> None:
    """Show what is in maintenance, and how many messages lie aside."""
    with connect(url, token) as client:
        state = client.maintenance.get()
    _print(state, as_json=as_json)


@app.command()
def push(to: To, url: Url = DEFAULT_URL, token: Token = None, as_json: Json = False) -> None:
    """Lay pushes aside, durably; when it ends, deliver them in order."""
    with connect(url, token) as client:
        state = client.maintenance.set_pushing(to is Switch.ON)
    _print(state, as_json=as_json)


@app.command()
def pop(to: To, url: Url = DEFAULT_URL, token: Token = None, as_json: Json = False) -> None:
    """Let every pop find nothing, until it ends."""
    with connect(url, token) as client:
        state = client.maintenance.set_popping(to is Switch.ON)
    _print(state, as_json=as_json)


def _print(state: MaintenanceState, *, as_json: bool) -> None:
    words = (
        "pushes are laid aside" if state.pushing else "pushes are delivered",
        "pops find nothing" if state.popping else "pops are served",
        f"messages that lie aside: {state.aside}",
    )
    output.print_done(state, ", ".join(words), as_json=as_json)
