"""Fills before, after and at their peak as a picture: SVG by the standard library alone.

Colours are those of Okabe and Ito, told apart by people who see red and green alike; each sign also has a shape
of its own. A volume takes one row; many volumes stand in several columns of smaller rows.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evenkeel.domain.moves import VolumeFill
from evenkeel.errors import InputError
from evenkeel.reasons import Reason

BEFORE, AFTER, LIMIT = "#E69F00", "#0072B2", "#D55E00"
INK, GREY, TRACK, WHITE = "#1a1a1a", "#595959", "#eeeeee", "#ffffff"
COLUMN_ROWS = 64
"""Most volumes below each other."""
ROOMY_ROWS = 24
"""Up to so many, rows are high."""
LABEL, BAR, VALUES, MARGIN = 170, 400, 120, 24
HEAD, FOOT = 100, 44
LABEL_SIGNS = 26
FULL = 1000


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where things are, in pixels."""

    columns: int
    rows: int
    row: int
    most: int
    """Thousandths at the right end of a bar."""

    @property
    def width(self) -> int:
        return MARGIN + self.columns * self.column_width

    @property
    def column_width(self) -> int:
        return LABEL + BAR + VALUES + MARGIN

    @property
    def height(self) -> int:
        return HEAD + self.rows * self.row + FOOT

    def left(self, column: int) -> int:
        """Where the bars of a column begin."""
        return MARGIN + column * self.column_width + LABEL

    def long(self, permille: float) -> float:
        return round(BAR * permille / self.most, 1)


def write_plot(
    path: str, fills: Sequence[VolumeFill], title: str, max_fill_percent: int | None = None
) -> None:
    """`build_plot` into a file.

    Raises:
        InputError: it cannot be written.
    """
    try:
        Path(path).write_text(build_plot(fills, title, max_fill_percent), encoding="utf-8")
    except OSError as error:
        raise InputError(f"--plot {path}: cannot be written: {error}", reason=Reason.INVALID_SPEC) from error


def build_plot(fills: Sequence[VolumeFill], title: str, max_fill_percent: int | None = None) -> str:
    """An SVG: per volume a bar before, a bar after and a line at its peak, and one line for the limit.

    Args:
        fills: volumes in the order in which they are drawn.
        title: what it is about.
        max_fill_percent: the fill that no move may bring a volume above; None: no line.
    """
    layout = _lay_out(fills)
    root = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {layout.width} {layout.height}",
            "width": str(layout.width),
            "height": str(layout.height),
            "role": "img",
            "aria-labelledby": "title description",
            "font-family": "system-ui, sans-serif",
        },
    )
    ET.SubElement(root, "title", {"id": "title"}).text = _printable(title)
    ET.SubElement(root, "desc", {"id": "description"}).text = _describe(fills)
    _rect(root, 0, 0, layout.width, layout.height, WHITE)
    _write(root, MARGIN, 32, title, size=18, weight="bold")
    _draw_legend(root, max_fill_percent)
    for column in range(layout.columns):
        _draw_column(root, layout, column, fills, max_fill_percent)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def _lay_out(fills: Sequence[VolumeFill]) -> _Layout:
    columns = max(1, math.ceil(len(fills) / COLUMN_ROWS))
    rows = max(1, math.ceil(len(fills) / columns))
    highest = max(
        (max(one.before_permille, one.after_permille, one.peak_permille) for one in fills), default=FULL
    )
    most = max(FULL, math.ceil(highest / 200) * 200)
    return _Layout(columns, rows, 34 if len(fills) <= ROOMY_ROWS else 18, most)


def _describe(fills: Sequence[VolumeFill]) -> str:
    if not fills:
        return "No volume is known."
    before, after = (
        max(getattr(one, name) for one in fills) / 10 for name in ("before_permille", "after_permille")
    )
    return (
        f"{len(fills)} volumes; the fullest is at {before:.1f} % before and at {after:.1f} % after the moves."
    )


def _draw_legend(root: ET.Element, max_fill_percent: int | None) -> None:
    x = MARGIN
    for colour, text in ((BEFORE, "before"), (AFTER, "after")):
        _rect(root, x, 48, 22, 10, colour)
        _write(root, x + 28, 58, text, size=13)
        x += 100
    _line(root, x + 4, 46, x + 4, 60, INK, width=2)
    _write(root, x + 14, 58, "peak while moving", size=13)
    if max_fill_percent is not None:
        x += 160
        _line(root, x + 4, 44, x + 4, 62, LIMIT, width=2, dash="5 3")
        _write(root, x + 14, 58, f"limit {max_fill_percent} %", size=13)


def _draw_column(
    root: ET.Element, layout: _Layout, column: int, fills: Sequence[VolumeFill], max_fill_percent: int | None
) -> None:
    some = fills[column * layout.rows : (column + 1) * layout.rows]
    left, bottom = layout.left(column), HEAD + len(some) * layout.row
    _draw_axis(root, layout, left, bottom)
    for number, fill in enumerate(some):
        _draw_volume(root, layout, left, HEAD + number * layout.row, fill)
    if max_fill_percent is not None:
        x = left + layout.long(max_fill_percent * 10)
        _line(root, x, HEAD - 6, x, bottom + 4, LIMIT, width=2, dash="5 3", kind="limit")


def _draw_axis(root: ET.Element, layout: _Layout, left: int, bottom: int) -> None:
    for permille in range(0, layout.most + 1, 200):
        x = left + layout.long(permille)
        _line(root, x, HEAD - 4, x, bottom + 4, "#d0d0d0")
        _write(root, x, bottom + 18, f"{permille // 10}", size=11, colour=GREY, anchor="middle")
    _write(root, left, bottom + 34, "fill, % of capacity", size=12, colour=GREY)


def _draw_volume(root: ET.Element, layout: _Layout, left: int, top: int, fill: VolumeFill) -> None:
    group = ET.SubElement(root, "g", {"class": "volume"})
    values = f"{fill.before_permille / 10:.1f} → {fill.after_permille / 10:.1f} %"
    peak = f"{fill.peak_permille / 10:.1f} %"
    ET.SubElement(group, "title").text = _printable(f"{fill.volume}: {values}, at most {peak}")
    gap = 4 if layout.row > 20 else 2  # noqa: PLR2004 - pixels
    half = (layout.row - 2 * gap) / 2
    size = 13 if layout.row > 20 else 11  # noqa: PLR2004 - pixels
    middle = top + layout.row / 2 + size * 0.35
    _write(group, left - 10, middle, _shorten(fill.volume), size=size, anchor="end")
    _rect(group, left, top + gap, BAR, 2 * half, TRACK)
    _rect(group, left, top + gap, layout.long(fill.before_permille), half, BEFORE, kind="before")
    _rect(group, left, top + gap + half, layout.long(fill.after_permille), half, AFTER, kind="after")
    x = left + layout.long(fill.peak_permille)
    _line(group, x, top + gap / 2, x, top + layout.row - gap / 2, INK, width=2, kind="peak")
    _write(group, left + BAR + 10, middle, values, size=size)


def _shorten(name: str) -> str:
    """The end of a long path tells more than its beginning."""
    if len(name) <= LABEL_SIGNS:
        return name
    head = name.split(":", 1)[0][:8]
    return f"{head}…{name[-(LABEL_SIGNS - len(head) - 1) :]}"


def _rect(
    parent: ET.Element, x: float, y: float, width: float, height: float, fill: str, kind: str | None = None
) -> None:
    shape = {
        "x": _number(x),
        "y": _number(y),
        "width": _number(width),
        "height": _number(height),
        "fill": fill,
    }
    ET.SubElement(parent, "rect", shape | ({"class": kind} if kind else {}))


def _line(
    parent: ET.Element,
    x1: float,
    y1: float,
    x2: float,
    y2: float,
    colour: str,
    *,
    width: int = 1,
    dash: str | None = None,
    kind: str | None = None,
) -> None:
    shape = {"x1": _number(x1), "y1": _number(y1), "x2": _number(x2), "y2": _number(y2)}
    more = {"stroke-dasharray": dash, "class": kind}
    style = {"stroke": colour, "stroke-width": str(width)}
    ET.SubElement(parent, "line", shape | style | {name: text for name, text in more.items() if text})


def _write(
    parent: ET.Element,
    x: float,
    y: float,
    text: str,
    *,
    size: int,
    colour: str = INK,
    anchor: str = "start",
    weight: str = "normal",
) -> None:
    place = {"x": _number(x), "y": _number(y), "font-size": str(size), "fill": colour}
    style = {"text-anchor": anchor, "font-weight": weight}
    ET.SubElement(parent, "text", place | style).text = _printable(text)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _printable(text: str) -> str:
    """XML knows no control characters, not even as entities."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)
