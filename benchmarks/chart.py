"""Lines over an axis as an SVG document, for questions that one number does not answer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

Point = tuple[float, float]

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP, _ROW = 420, 220, 70, 46, 64, 16
_FONT = 'font-family="sans-serif" font-size="11"'
_COLOURS = ("#1f6fb4", "#d9822b", "#2f9e44", "#9c36b5")


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart: lines by name over one axis, and below it marks by name, each a row of ticks.

    :param is_log: of x and of y, whether steps are factors; values of 0 then lie at the lower end.
    """

    title: str
    x_label: str
    lines: Mapping[str, Sequence[Point]]
    marks: Mapping[str, Sequence[float]] = field(default_factory=dict)
    is_log: tuple[bool, bool] = (False, False)
    from_zero: bool = True


def page(title: str, panels: Sequence[Panel], columns: int = 2) -> str:
    """An SVG document of panels, row by row."""
    rows = [panels[first : first + columns] for first in range(0, len(panels), columns)]
    parts = [f'<text x="12" y="20" font-size="14">{escape(title)}</text>']
    y = 30
    for row in rows:
        for column, panel in enumerate(row):
            parts.append(f'<g transform="translate({column * (_WIDTH + _LEFT + 30)},{y})">{_panel(panel)}</g>')
        y += _HEIGHT + _TOP + _GAP + _ROW * max(len(panel.marks) for panel in row)
    width = min(columns, len(panels)) * (_WIDTH + _LEFT + 30) + 20
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" {_FONT}>'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>", ""])


class _Axis:
    """Values to pixels of a length."""

    def __init__(self, values: Iterable[float], length: float, *, is_log: bool, from_zero: bool) -> None:
        found = [value for value in values if value > 0 or not is_log] or [1.0]
        self._is_log = is_log
        self._least = min(found) if is_log or not from_zero else min(0.0, *found)
        self._most = max(found)
        if is_log:
            self._least = 10 ** math.floor(math.log10(self._least))
            self._most = 10 ** math.ceil(math.log10(self._most) + 1e-9)
        if self._most <= self._least:
            self._most = self._least + 1
        self._length = length

    def at(self, value: float) -> float:
        if self._is_log:
            share = math.log(max(value, self._least) / self._least) / math.log(self._most / self._least)
        else:
            share = (value - self._least) / (self._most - self._least)
        return share * self._length

    def ticks(self) -> list[float]:
        if self._is_log:
            return [10.0**power for power in range(round(math.log10(self._least)), round(math.log10(self._most)) + 1)]
        step = 10 ** math.floor(math.log10((self._most - self._least) / 2))
        while (self._most - self._least) / step > 6:
            step *= 2.5 if math.isclose(math.log10(step / 2) % 1, 0, abs_tol=1e-6) else 2
        first = math.ceil(self._least / step)
        return [number * step for number in range(first, int(self._most / step) + 1)]


def _panel(panel: Panel) -> str:
    points = [point for line in panel.lines.values() for point in line]
    xs = [x for x, _ in points] + [x for ticks in panel.marks.values() for x in ticks]
    across = _Axis(xs, _WIDTH, is_log=panel.is_log[0], from_zero=False)
    up = _Axis([y for _, y in points], _HEIGHT, is_log=panel.is_log[1], from_zero=panel.from_zero)
    bottom = _TOP + _HEIGHT
    parts = [f'<text x="{_LEFT}" y="14" font-size="12">{escape(panel.title)}</text>']
    for number, name in enumerate(panel.lines):
        parts.append(f'<text x="{_LEFT + number * 130}" y="32" fill="{_COLOURS[number]}">{escape(name)}</text>')
    for tick in up.ticks():
        y = bottom - up.at(tick)
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_LEFT + _WIDTH}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#666">{tick:,.6g}</text>')
    for tick in across.ticks():
        x = _LEFT + across.at(tick)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle" fill="#666">{tick:,.6g}</text>')
    middle = _LEFT + _WIDTH / 2
    parts.append(f'<text x="{middle}" y="{bottom + 28}" text-anchor="middle">{escape(panel.x_label)}</text>')
    for number, line in enumerate(panel.lines.values()):
        places = [(_LEFT + across.at(x), bottom - up.at(y)) for x, y in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{_COLOURS[number]}"/>')
        if len(places) < 20:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{_COLOURS[number]}"/>' for x, y in places]
    for row, (name, ticks) in enumerate(panel.marks.items()):
        y = bottom + 44 + row * _ROW
        parts.append(f'<text x="{_LEFT + _WIDTH + 6}" y="{y + 4}" fill="#444">{escape(name)}</text>')
        for tick in ticks:
            x = _LEFT + across.at(tick)
            parts.append(f'<line x1="{x:.1f}" y1="{y - 5}" x2="{x:.1f}" y2="{y + 5}" stroke="#444"/>')
    return "".join(parts)
