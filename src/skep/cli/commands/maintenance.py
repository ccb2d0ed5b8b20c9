"""``skep maintenance``: buffer pushes, pause pops."""

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


To = Annotated[Switch, typer.Argument(help="on starts it, off ends it.")]


@app.command()
def show(url: Url = DEFAULT_URL, token: Token = None, as_json: Json = False) -> None:
    """Show the state of maintenance.

    That is whether pushes are buffered, whether pops are paused, and the number of buffered
    messages.
    """
    with connect(url, token) as client:
        state = client.maintenance.get()
    _print(state, as_json=as_json)


@app.command()
def push(to: To, url: Url = DEFAULT_URL, token: Token = None, as_json: Json = False) -> None:
    """Buffer pushes durably; deliver them in order when turned off."""
    with connect(url, token) as client:
        state = client.maintenance.set_pushing(to is Switch.ON)
    _print(state, as_json=as_json)


@app.command()
def pop(to: To, url: Url = DEFAULT_URL, token: Token = None, as_json: Json = False) -> None:
    """Pause pops: all of them return empty until turned off."""
    with connect(url, token) as client:
        state = client.maintenance.set_popping(to is Switch.ON)
    _print(state, as_json=as_json)


def _print(state: MaintenanceState, *, as_json: bool) -> None:
    document = {"pushing": state.pushing, "popping": state.popping, "buffered": state.aside}
    text = (
        f"pushes: {'buffered' if state.pushing else 'delivered'}",
        f"pops: {'paused' if state.popping else 'served'}",
        f"buffered messages: {state.aside}",
    )
    output.print_done(document, ", ".join(text), as_json=as_json)
