"""Times and durations as commands and reports print them for people."""

from __future__ import annotations

from datetime import UTC, datetime

_TENTHS_UP_TO_MS = 59_950
"""The milliseconds below which a duration of a second or more shows tenths of a second."""


def moment_text(moment_ms: int) -> str:
    """Format milliseconds since 1970 as ``2026-05-01T12:00:00.123Z``; 0, which means no time, as a dash."""
    if moment_ms == 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(moment_ms // 1_000, UTC)
    except (ValueError, OverflowError, OSError):  # no clock ever showed it
        return f"{moment_ms} ms after 1970"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment_ms % 1_000:03d}Z"


def duration_text(milliseconds: float) -> str:
    """Format a duration with its two largest units: ``850ms``, ``12.5s``, ``28m5s``, ``3h20m``, ``2d4h``."""
    whole_ms = max(round(milliseconds), 0)
    if whole_ms < 1_000:
        return f"{whole_ms}ms"
    if whole_ms < _TENTHS_UP_TO_MS:
        return f"{whole_ms / 1_000:.1f}".removesuffix(".0") + "s"
    seconds = round(whole_ms / 1_000)
    if seconds < 3_600:
        return _pair(seconds, 60, "m", "s")
    minutes = round(seconds / 60)
    if minutes < 1_440:
        return _pair(minutes, 60, "h", "m")
    return _pair(round(seconds / 3_600), 24, "d", "h")


def _pair(count: int, per_large: int, large: str, small: str) -> str:
    whole, rest = divmod(count, per_large)
    return f"{whole}{large}{rest}{small}" if rest else f"{whole}{large}"
