"""A page that stands alone: words, tables and drawings in one file."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2430; background: #fff; margin: 0 auto;
  max-width: 1060px; padding: 24px 32px 64px; }
h1 { font-size: 26px; margin: 0 0 4px; }
h2 { font-size: 19px; margin: 44px 0 4px; }
p { margin: 4px 0 14px; color: #4a5565; max-width: 75ch; }
figure { margin: 12px 0 18px; overflow-x: auto; }
svg { font: 12px system-ui, sans-serif; display: block; max-width: 100%; height: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
th { text-align: left; font-weight: 600; border-bottom: 2px solid #c9d1db; white-space: nowrap; }
td { border-bottom: 1px solid #e7ebf0; }
th, td { padding: 4px 18px 4px 0; vertical-align: top; }
.whole { white-space: nowrap; }
.number { text-align: right; white-space: nowrap; }
.figures { display: flex; flex-wrap: wrap; gap: 12px 40px; margin: 18px 0 0; }
.figures b { display: block; font-size: 24px; line-height: 1.2; }
.figures span { color: #4a5565; }
"""

WHOLE = 40
"""Cells of so many letters are not broken: names, ids and times."""


class HtmlPage:
    """Parts of a page, one below the other."""

    def __init__(self, title: str, about: str) -> None:
        self._title = title
        self._parts = [f"<h1>{escape(title)}</h1>", f"<p>{escape(about)}</p>"]

    def figures(self, figures: Iterable[tuple[str, object]]) -> None:
        """A few numbers that count."""
        cells = (
            f"<div><b>{cell(value)}</b><span>{escape(name)}</span></div>" for name, value in figures
        )
        self._parts.append(f'<div class="figures">{"".join(cells)}</div>')

    def section(self, title: str, about: str) -> None:
        self._parts.append(f"<h2>{escape(title)}</h2>\n<p>{escape(about)}</p>")

    def drawing(self, svg: str) -> None:
        self._parts.append(f"<figure>{svg}</figure>")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """A table; that it has no rows is said instead."""
        lines = "\n".join(_row("td", row) for row in rows)
        if lines:
            head = _row("th", columns)
            self._parts.append(f'<div class="wide"><table>{head}\n{lines}</table></div>')
        else:
            self._parts.append("<p>There is nothing here.</p>")

    def html(self) -> str:
        return (
            '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width">\n'
            f"<title>{escape(self._title)}</title>\n<style>{_STYLE}</style>\n"
            + "\n".join(self._parts)
            + "\n</html>\n"
        )

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.html())


def cell(value: object) -> str:
    """A value as it stands in a page."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\u202f")
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else cell(round(value))
    if isinstance(value, list):
        return escape(" → ".join(map(str, value)))
    return escape(str(value))


def _row(tag: str, values: Sequence[object]) -> str:
    cells = (f'<{tag} class="{_kind(value)}">{cell(value)}</{tag}>' for value in values)
    return f"<tr>{''.join(cells)}</tr>"


def _kind(value: object) -> str:
    if isinstance(value, int | float):
        return "number"
    return "whole" if len(cell(value)) <= WHOLE else "text"


def lasting(seconds: float) -> str:
    """Seconds in the unit that suits them."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1000:.3g} ms"
