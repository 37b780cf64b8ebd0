"""Plots as SVG, so that a page with plots is one file without other files: stacked bars, upright or lying."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 720
_PLOT_HEIGHT: Final = 160
_LABEL_HEIGHT: Final = 18
_ROW_HEIGHT: Final = 22
_NAME_WIDTH: Final = 220
_MOST_LABELS: Final = 10
_GAP: Final = 0.15
"""The gap beside a bar, as a share of the bar's room."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar.

    :param parts: the series of the bar and their values, from the bottom or from the left.
    """

    label: str
    parts: Mapping[str, float]

    @property
    def total(self) -> float:
        """The length of the bar."""
        return sum(self.parts.values())


class Svg(str):
    """A plot, which is text for a page and a picture in a notebook."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(self)


def upright_bars(bars: Sequence[Bar], colours: Mapping[str, str]) -> Svg:
    """Draw bars side by side; the highest bar fills the plot."""
    highest = max((bar.total for bar in bars), default=0) or 1
    step = WIDTH / max(len(bars), 1)
    drawn: list[str] = []
    for place, bar in enumerate(bars):
        bottom = float(_PLOT_HEIGHT)
        for name, value in bar.parts.items():
            height = value / highest * (_PLOT_HEIGHT - 14)
            bottom -= height
            box = ((place + _GAP / 2) * step, bottom, step * (1 - _GAP), height)
            drawn.append(_rect(box, colours[name], _title(bar, name)))
        if place % max(-(-len(bars) // _MOST_LABELS), 1) == 0:
            drawn.append(_text((place + 0.5) * step, _PLOT_HEIGHT + 14, bar.label, "middle"))
    drawn.append(_text(0, 10, f"maximum: {highest:,.0f}", "start"))
    return _svg(_PLOT_HEIGHT + _LABEL_HEIGHT, drawn)


def lying_bars(bars: Sequence[Bar], colours: Mapping[str, str]) -> Svg:
    """Draw bars below each other, with names on the left; the longest bar fills the plot."""
    longest = max((bar.total for bar in bars), default=0) or 1
    drawn: list[str] = []
    for row, bar in enumerate(bars):
        top = row * _ROW_HEIGHT
        left = float(_NAME_WIDTH)
        drawn.append(_text(_NAME_WIDTH - 8, top + 15, _short(bar.label), "end"))
        for name, value in bar.parts.items():
            width = value / longest * (WIDTH - _NAME_WIDTH - 80)
            box = (left, top + 3, width, _ROW_HEIGHT - 6)
            drawn.append(_rect(box, colours[name], _title(bar, name)))
            left += width
        drawn.append(_text(left + 6, top + 15, f"{bar.total:,.0f}", "start"))
    return _svg(len(bars) * _ROW_HEIGHT, drawn)


def legend(colours: Mapping[str, str]) -> str:
    """Return the meaning of the colours as HTML."""
    return "".join(
        f'<span class="key"><i style="background:{colour}"></i>{escape(name.replace("_", " "))}</span>'
        for name, colour in colours.items()
    )


def _title(bar: Bar, name: str) -> str:
    return f"{bar.label}: {bar.parts[name]:,.0f} {name.replace('_', ' ')}"


def _rect(box: tuple[float, float, float, float], colour: str, title: str) -> str:
    """Draw a part of a bar, whose ``box`` is x, y, width and height."""
    x, y, width, height = box
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}">'
        f"<title>{escape(title)}</title></rect>"
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _short(name: str) -> str:
    most = 30
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _svg(height: float, drawn: Sequence[str]) -> Svg:
    return Svg(f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img">{"".join(drawn)}</svg>')
