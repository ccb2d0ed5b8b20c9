"""A drawing of how journeys flow from queue to queue."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from skep.pipelines.pages.chart import COLOURS, shortened, svg

_BOX_WIDTH, _BOX_HEIGHT = 190, 64
_GAP_X, _GAP_Y = 170, 56
_MARGIN = 12
_BELOW = 40
"""How far lines go below the boxes."""
_THICKEST = 16.0
_STUCK = "#b3382c"


@dataclass(frozen=True, slots=True)
class Stop:
    """A queue: journeys that came there, that ended there well, and that are stuck there."""

    journeys: int
    stuck: int
    final: bool


@dataclass(frozen=True, slots=True)
class Way:
    """From one queue to another: how many went it, and how long half of them took at most."""

    start: str
    end: str
    steps: int
    words: str


def ranks(stops: Sequence[str], ways: Sequence[Way]) -> dict[str, int]:
    """The column of each queue: behind all from which journeys come. A way back moves none."""
    found = dict.fromkeys(stops, 0)
    forward = _without_returns(stops, ways)
    for _ in stops:
        for way in forward:
            found[way.end] = max(found[way.end], found[way.start] + 1)
    return found


def _without_returns(stops: Sequence[str], ways: Sequence[Way]) -> list[Way]:
    """Ways, the busiest first, without those that would close a circle."""
    kept: list[Way] = []
    for way in sorted(ways, key=lambda way: (-way.steps, way.start, way.end)):
        if not _leads(kept, way.end, way.start):
            kept.append(way)
    return kept


def _leads(ways: Sequence[Way], start: str, end: str) -> bool:
    seen, ahead = {start}, [start]
    while ahead:
        here = ahead.pop()
        if here == end:
            return True
        for way in ways:
            if way.start == here and way.end not in seen:
                seen.add(way.end)
                ahead.append(way.end)
    return False


def drawing(stops: Mapping[str, Stop], ways: Sequence[Way]) -> str:
    """Queues as boxes from left to right, and ways as lines, the thicker the more went them."""
    places = _places(stops, ways)
    most = max((way.steps for way in ways), default=1)
    lines = [_line(places[way.start], places[way.end], way, most) for way in ways]
    parts = [line.path() for line in lines]
    parts += [_box(places[name], name, stop) for name, stop in stops.items()]
    parts += [line.text() for line in lines]
    width = max((x for x, _ in places.values()), default=0) + _BOX_WIDTH + _MARGIN
    height = max((y for _, y in places.values()), default=0) + _BOX_HEIGHT + _MARGIN + _BELOW + 8
    return svg(width, height, parts)


def _places(stops: Mapping[str, Stop], ways: Sequence[Way]) -> dict[str, tuple[int, int]]:
    columns: dict[int, list[str]] = {}
    for name, rank in ranks(list(stops), ways).items():
        columns.setdefault(rank, []).append(name)
    return {
        name: (
            _MARGIN + rank * (_BOX_WIDTH + _GAP_X),
            _MARGIN + 20 + row * (_BOX_HEIGHT + _GAP_Y),
        )
        for rank, names in columns.items()
        for row, name in enumerate(sorted(names, key=lambda name: -stops[name].journeys))
    }


@dataclass(frozen=True, slots=True)
class _Line:
    curve: str
    width: float
    label: tuple[float, float]
    way: Way

    def path(self) -> str:
        way = self.way
        words = f"{way.start} → {way.end}: {way.steps}, {way.words}"
        return (
            f'<path d="{self.curve}" fill="none" stroke="{COLOURS[0]}" stroke-opacity=".45" '
            f'stroke-width="{self.width:.1f}"><title>{escape(words)}</title></path>'
        )

    def text(self) -> str:
        x, y = self.label
        return (
            f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="middle" fill="#1c2430" stroke="#fff" '
            f'stroke-width="4" paint-order="stroke">{self.way.steps} · '
            f"{escape(self.way.words)}</text>"
        )


def _line(start: tuple[int, int], end: tuple[int, int], way: Way, most: int) -> _Line:
    width = max(1.5, _THICKEST * way.steps / most)
    if not 0 < end[0] - start[0] <= _BOX_WIDTH + _GAP_X:
        return _line_below(start, end, way, width)
    x1, y1 = start[0] + _BOX_WIDTH, start[1] + _BOX_HEIGHT // 2
    x2, y2 = end[0], end[1] + _BOX_HEIGHT // 2
    middle = (x1 + x2) / 2
    curve = f"M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}"
    return _Line(curve, width, (middle, (y1 + y2) / 2 - width / 2 - 6), way)


def _line_below(start: tuple[int, int], end: tuple[int, int], way: Way, width: float) -> _Line:
    """A way back, to the same queue, or past another one, which is seen below the boxes."""
    x1, y1 = start[0] + _BOX_WIDTH // 2 + 30, start[1] + _BOX_HEIGHT
    x2, y2 = end[0] + _BOX_WIDTH // 2 - 30, end[1] + _BOX_HEIGHT
    lowest = max(y1, y2) + _BELOW
    curve = f"M{x1},{y1} C{x1},{lowest} {x2},{lowest} {x2},{y2}"
    return _Line(curve, width, ((x1 + x2) / 2, (y1 + y2) / 8 + lowest * 3 / 4 + 13), way)


def _box(place: tuple[int, int], name: str, stop: Stop) -> str:
    x, y = place
    colour = COLOURS[2] if stop.final else COLOURS[0]
    parts = [
        f'<rect x="{x}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="8" fill="#fff" '
        f'stroke="{colour}" stroke-width="2"><title>{escape(name)}</title></rect>',
        f'<text x="{x + 12}" y="{y + 20}" font-weight="600" fill="#1c2430">'
        f"{escape(shortened(name, 24))}</text>",
        f'<text x="{x + 12}" y="{y + 37}" fill="#4a5565">{stop.journeys} journeys'
        f"{', final' if stop.final else ''}</text>",
    ]
    if stop.stuck:
        parts.append(
            f'<text x="{x + 12}" y="{y + 54}" fill="{_STUCK}">{stop.stuck} stuck here</text>'
        )
    return "".join(parts)
