"""Drawings and pages: whole, in their frames, and harmless whatever names say."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest

from skep.pipelines.pages.analytics import MOST_WINDOWS, windows_between
from skep.pipelines.pages.chart import bars, columns, lines
from skep.pipelines.pages.flow import Stop, Way, drawing, ranks
from skep.pipelines.pages.page import HtmlPage, cell, lasting
from skep.pipelines.pages.traces import TraceReport, page_of

EVIL = '<script>alert("1")</script> & more'
SVG = "{http://www.w3.org/2000/svg}"


def frame(svg: str) -> tuple[ElementTree.Element, float, float]:
    """A drawing as what a browser makes of it, and its size."""
    root = ElementTree.fromstring(svg)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    return root, width, height


def test_a_bar_is_as_long_as_its_value() -> None:
    root, width, _ = frame(bars([("a", 10, "ten"), (EVIL, 5, "five"), ("none", 0, "0")]))

    first, second, third = (float(rect.attrib["width"]) for rect in root.iter(f"{SVG}rect"))
    assert first == pytest.approx(2 * second)
    assert third == 1
    assert first < width
    assert bars([])


def test_columns_stand_on_each_other_within_the_frame() -> None:
    root, width, height = frame(columns(["x", "y"], {"a": [1, 7], EVIL: [3, 0]}, "messages"))

    for rect in root.iter(f"{SVG}rect"):
        x, y, w, h = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width
        assert 0 <= y <= y + h <= height
    assert frame(columns([], {}, "messages"))


def test_a_line_goes_through_its_values_within_the_frame() -> None:
    root, width, height = frame(lines(["x", "y", "z"], {"a": [1, 4, 5], EVIL: [0, 2, 3]}, "s"))

    first, second = (
        [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
        for line in root.iter(f"{SVG}polyline")
    )
    assert all(0 <= x <= width and 0 <= y <= height for x, y in first + second)
    assert first[0][1] > first[1][1] > first[2][1]
    assert [x for x, _ in first] == [x for x, _ in second]
    assert all(low[1] > high[1] for high, low in zip(first, second, strict=True))
    assert frame(lines([], {}, "s"))


def test_a_queue_stands_behind_those_that_lead_to_it() -> None:
    ways = [
        Way("orders", "payments", 90, ""),
        Way("payments", "shipments", 80, ""),
        Way("orders", "shipments", 3, ""),
        Way("shipments", "orders", 1, ""),
        Way("payments", "payments", 1, ""),
    ]

    found = ranks(["orders", "payments", "shipments", "alone"], ways)

    assert found == {"orders": 0, "payments": 1, "shipments": 2, "alone": 0}


def test_a_flow_is_drawn_within_its_frame() -> None:
    stops = {"a": Stop(10, 2, False), EVIL: Stop(8, 0, True)}
    ways = [Way("a", EVIL, 8, "1 s"), Way(EVIL, "a", 1, "1 s"), Way("a", "a", 1, "2 s")]

    svg = drawing(stops, ways)

    root, width, height = frame(svg)
    assert len(list(root.iter(f"{SVG}path"))) == 3
    for text in root.iter(f"{SVG}text"):
        assert 0 <= float(text.attrib["x"]) <= width
        assert 0 <= float(text.attrib["y"]) <= height
    for path in root.iter(f"{SVG}path"):
        places = re.findall(r"([\d.]+),([\d.]+)", path.attrib["d"])
        assert all(float(x) <= width and float(y) <= height for x, y in places)
    assert drawing({}, [])


def test_names_do_nothing_on_a_page(tmp_path: Path) -> None:
    page = HtmlPage(EVIL, EVIL)
    page.figures([(EVIL, 1)])
    page.section(EVIL, EVIL)
    page.table([EVIL], [[EVIL]])
    page.drawing(bars([(EVIL, 1, EVIL)]))
    page.write(tmp_path / "new" / "page.html")

    assert "<script" not in (tmp_path / "new" / "page.html").read_text()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (1234567, "1\u202f234\u202f567"),
        (0.123456, "0.123"),
        (12345.6, "12\u202f346"),
        (["a", "b"], "a → b"),
        (datetime(2026, 1, 31, 12, tzinfo=UTC), "2026-01-31 12:00:00"),
    ],
)
def test_values_are_shown_as_people_read_them(value: object, shown: str) -> None:
    assert cell(value) == shown


def test_times_are_shown_in_the_unit_that_suits_them() -> None:
    assert [lasting(each) for each in (0.0042, 1.5, 90, 7200, 172800)] == [
        *("4.2 ms", "1.5 s", "1.5 min", "2 h", "2 d")
    ]


def test_a_way_past_a_queue_is_not_drawn_over_it() -> None:
    stops = {name: Stop(9, 0, final=name == "c") for name in "abc"}
    ways = [Way("a", "b", 8, "1 s"), Way("b", "c", 8, "1 s"), Way("a", "c", 1, "2 s")]

    root, _, _ = frame(drawing(stops, ways))

    lowest = max(
        float(box.attrib["y"]) + float(box.attrib["height"]) for box in root.iter(f"{SVG}rect")
    )
    (label,) = [each for each in root.iter(f"{SVG}text") if each.text == "1 · 2 s"]
    assert float(label.attrib["y"]) > lowest


def test_windows_in_which_nothing_was_pushed_are_shown_and_the_last_are_enough() -> None:
    minute, noon = timedelta(minutes=1), datetime(2026, 1, 31, 12, tzinfo=UTC)

    assert windows_between([noon + 3 * minute, noon], minute) == [
        *(noon, noon + minute, noon + 2 * minute, noon + 3 * minute)
    ]
    shown = windows_between([noon, noon + 1000 * minute], minute)
    assert (len(shown), shown[-1]) == (MOST_WINDOWS, noon + 1000 * minute)
    assert windows_between([], minute) == []


def test_a_page_of_no_journeys_says_why(tmp_path: Path) -> None:
    nothing = TraceReport(edges=[], endings=[], stops={}, stuck=[], final=[])

    page_of(nothing, within="1h", now=datetime(2026, 1, 31, tzinfo=UTC)).write(tmp_path / "page")

    assert "no message had a trace id" in (tmp_path / "page").read_text()
