"""What all pipelines take, and what several do."""

import functools
import inspect
import re
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from skep.cli.connect import DEFAULT_URL, Token, Url
from skep.cli.options import Json

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_of(text: str | float) -> float:
    """Seconds of a time such as 10s, 15m or 1h."""
    found = re.fullmatch(r"\s*(\d+)\s*(ms|s|m|h|d)\s*", str(text))
    if found is None:
        raise typer.BadParameter(f"must be a time such as 10s, 15m or 1h, not {text!r}")
    return int(found[1]) * _UNITS[found[2]]


Queues = Annotated[
    list[str] | None,
    typer.Option("--queue", help="Only this queue; may be given several times.  [default: all]"),
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on until it is stopped.")]
Every = Annotated[str, typer.Option(help="How often, with --follow: 10s, 5m, 1h.")]
AllowLoss = Annotated[
    bool, typer.Option(help="Go on though messages were removed before they were read.")
]
To = Annotated[str, typer.Option("--to", help="The directory for what is found.")]
Report = Annotated[
    str | None,
    typer.Option("--report", help="Where the page goes.  [default: report.html in --to]"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a pipeline runs, and where its server is."""

    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[*]"
    remote: Annotated[
        str | None, typer.Option(help="A Spark Connect server instead: sc://host:15002.")
    ] = None
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="Where it keeps its place.  [default: in --to, or else below "
            "~/.local/share/skep/pipelines]"
        ),
    ] = None
    url: Url = DEFAULT_URL
    token: Token = field(default=None, repr=False)
    as_json: Json = False

    def located(self, path: str) -> str:
        """A path that means the same whoever reads it from wherever.

        What another machine makes of one is for its own Spark to say.
        """
        return str(Path(path).resolve()) if self.is_local(path) else path

    def is_local(self, path: str) -> bool:
        """Whether a path is one of this machine."""
        return not self.remote and self.master.startswith("local") and "://" not in path


def placed(command: Any) -> Any:
    """Give a command the options of a place, and hand it the place."""
    own = [each for each in inspect.signature(command).parameters.values() if each.name != "place"]
    hints = get_type_hints(Place, include_extras=True)
    shared = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=each.default,
            annotation=hints[each.name],
        )
        for each in fields(Place)
        if each.default is not MISSING
    ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        place = Place(**{each.name: given.pop(each.name) for each in shared})
        command(**given, place=place)

    run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in (*own, *shared)}
    return run
