"""Charts as SVG: bars that lie, columns that stand on each other, and lines."""

from collections.abc import Mapping, Sequence
from html import escape
from math import floor, log10

WIDTH = 980
COLOURS = ("#2f6db5", "#d98324", "#3f9268", "#a54a6b", "#7a63b8", "#5b7083", "#b8a13a", "#3aa0a8")
_INK, _GREY = "#1c2430", "#d5dbe3"
_ROW, _LABELS, _VALUES = 24, 330, 110
_HEIGHT, _LEFT, _BOTTOM, _TOP = 240, 64, 26, 30


def bars(rows: Sequence[tuple[str, float, str]], *, colour: str = COLOURS[0]) -> str:
    """A bar for each row: its label, its value, and the value in words."""
    most = max((value for _, value, _ in rows), default=0) or 1
    room = WIDTH - _LABELS - _VALUES
    parts = []
    for index, (label, value, words) in enumerate(rows):
        top, width = index * _ROW, max(1.0, room * value / most)
        parts.append(
            f'<text x="{_LABELS - 10}" y="{top + 16}" text-anchor="end" fill="{_INK}">'
            f"{escape(shortened(label, 46))}<title>{escape(label)}</title></text>"
            f'<rect x="{_LABELS}" y="{top + 4}" width="{width:.1f}" height="{_ROW - 8}" rx="2" '
            f'fill="{colour}"><title>{escape(f"{label}: {words}")}</title></rect>'
            f'<text x="{_LABELS + width + 8:.1f}" y="{top + 16}" fill="{_INK}">'
            f"{escape(words)}</text>"
        )
    return svg(WIDTH, max(1, len(rows)) * _ROW, parts)


def columns(labels: Sequence[str], series: Mapping[str, Sequence[float]], unit: str) -> str:
    """For each label a column in which the series stand on each other."""
    totals = [sum(values[index] for values in series.values()) for index in range(len(labels))]
    top = _rounded_up(max(totals, default=0))
    parts = [*_legend(list(series)), *_scale(top, unit)]
    step = (WIDTH - _LEFT) / max(1, len(labels))
    width = min(60.0, step * 0.8)
    for index, label in enumerate(labels):
        x, y = _LEFT + index * step + (step - width) / 2, float(_HEIGHT - _BOTTOM)
        for number, (name, values) in enumerate(series.items()):
            height = (_HEIGHT - _BOTTOM - _TOP) * values[index] / top
            y -= height
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
                f'fill="{COLOURS[number % len(COLOURS)]}">'
                f"<title>{escape(f'{label} {name}: {values[index]:g} {unit}')}</title></rect>"
            )
    return svg(WIDTH, _HEIGHT, [*parts, *_labels(labels)])


def lines(labels: Sequence[str], series: Mapping[str, Sequence[float]], unit: str) -> str:
    """For each series a line through its values."""
    top = _rounded_up(max((max(values, default=0) for values in series.values()), default=0))
    parts = [*_legend(list(series)), *_scale(top, unit)]
    step = (WIDTH - _LEFT) / max(1, len(labels))
    for number, (name, values) in enumerate(series.items()):
        colour, points = COLOURS[number % len(COLOURS)], []
        for index, (label, value) in enumerate(zip(labels, values, strict=True)):
            x = _LEFT + (index + 0.5) * step
            y = _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * value / top
            points.append(f"{x:.1f},{y:.1f}")
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}">'
                f"<title>{escape(f'{label} {name}: {value:.3g} {unit}')}</title></circle>"
            )
        parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}"/>')
    return svg(WIDTH, _HEIGHT, [*parts, *_labels(labels)])


def _labels(labels: Sequence[str]) -> list[str]:
    """Below the chart, as many as there is room for."""
    step = (WIDTH - _LEFT) / max(1, len(labels))
    every = max(1, -(-len(labels) * 70 // (WIDTH - _LEFT)))
    return [
        f'<text x="{_LEFT + (index + 0.5) * step:.1f}" y="{_HEIGHT - 8}" text-anchor="middle" '
        f'fill="{_INK}">{escape(labels[index])}</text>'
        for index in range(0, len(labels), every)
    ]


def _legend(names: Sequence[str]) -> list[str]:
    parts, x = [], _LEFT
    for number, name in enumerate(names):
        shown = shortened(name, 28)
        parts.append(
            f'<rect x="{x}" y="2" width="12" height="12" rx="2" '
            f'fill="{COLOURS[number % len(COLOURS)]}"/>'
            f'<text x="{x + 17}" y="12" fill="{_INK}">{escape(shown)}</text>'
        )
        x += 34 + 7 * len(shown)
    return parts


def _scale(top: float, unit: str) -> list[str]:
    parts = []
    for part in (0.0, 0.5, 1.0):
        y = _HEIGHT - _BOTTOM - part * (_HEIGHT - _BOTTOM - _TOP)
        parts.append(
            f'<line x1="{_LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="{_GREY}"/>'
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="{_INK}">'
            f"{top * part:g}<title>{escape(unit)}</title></text>"
        )
    return parts


def _rounded_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50 and so on: a scale that can be read."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def svg(width: float, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img">{"".join(parts)}</svg>'
    )


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
