"""The ratios of a run as a picture: a line from the least ratio of a round to the greatest, the median as a dot."""

from __future__ import annotations

import math
import statistics
from html import escape

from benchmarks.row import RATES, Row
from benchmarks.table import Results
from benchmarks.table import ratios as ratios_of

_LEFT, _WIDTH, _STEP, _TOP = 190, 520, 22, 40
_FONT = 'font-family="sans-serif" font-size="12"'
_LEAST, _MOST = 0.01, 10.0
"""Ends of the axis, which is logarithmic: twice as fast is as far to the right as half as fast to the left."""
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_SHOWN = {
    "messages_per_s": "rate",
    "delivered_per_s": "delivered",
    "p99_ms": "p99",
    "p999_ms": "p99.9",
    "due_p99_ms": "p99 since due",
    "due_p999_ms": "p99.9 since due",
    "anonymous_after_mb": "memory",
    "server_cpu_us": "broker CPU",
    "start_to_first_send_ms": "start",
    "idle_anonymous_mb": "memory",
    "recovery_ms": "recovery",
    "stop_ms": "stop",
}


def ratios(rows: list[Row], results: Results) -> str:
    """An SVG document: gateway / Apache RocketMQ, rates to the right of 1 and costs to the left of 1 are better."""
    lines = [
        (f"{row.name}, {label}", name in RATES, found)
        for row in rows
        for name, label in _SHOWN.items()
        if (found := ratios_of(results.get(row.name, {}), name))
    ]
    height = _TOP + _STEP * (len(lines) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 60}" height="{height}" {_FONT}>',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="16">gateway ÷ Apache RocketMQ: blue is better to the right, orange to the left</text>',
    ]
    for tick in _TICKS:
        parts.append(
            f'<line x1="{_at(tick):.1f}" y1="{_TOP - 8}" x2="{_at(tick):.1f}" y2="{height - _STEP}" '
            f'stroke="{"#444" if tick == 1 else "#ddd"}"/>'
            f'<text x="{_at(tick):.1f}" y="{_TOP - 12}" text-anchor="middle" fill="#666">{tick:g}</text>'
        )
    for number, (label, is_rate, found) in enumerate(lines):
        parts.append(_line(_TOP + _STEP * number + 8, label, "#1f6fb4" if is_rate else "#d9822b", found))
    return "\n".join([*parts, "</svg>", ""])


def _line(y: int, label: str, colour: str, found: list[float]) -> str:
    median = statistics.median(found)
    least, most = _at(found[0]), _at(found[-1])
    return (
        f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{escape(label)}</text>'
        f'<line x1="{least:.1f}" y1="{y}" x2="{most:.1f}" y2="{y}" stroke="{colour}" stroke-width="3"/>'
        f'<circle cx="{_at(median):.1f}" cy="{y}" r="4" fill="{colour}"/>'
        f'<text x="{_LEFT + _WIDTH + 8}" y="{y + 4}" fill="#444">{median:.2f}</text>'
    )


def _at(ratio: float) -> float:
    share = math.log(min(max(ratio, _LEAST), _MOST) / _LEAST) / math.log(_MOST / _LEAST)
    return _LEFT + _WIDTH * share
