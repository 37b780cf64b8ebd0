"""The check that the server kept its promises while it was fuzzed; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.tests.fuzz.honest import Report
from gateway.tests.fuzz.watch import Watched

MAX_GROWTH_BYTES: Final = 400 << 20
"""Memory above that of the start, at any time."""
MAX_LINES_A_MINUTE: Final = 600
"""Some 50 events of the log can be caused by requests; each writes 20 lines at once and then six a minute."""
MAX_MORE_THREADS: Final = 30
MAX_SOCKETS_LEFT: Final = 2
"""Sockets that may be open after all clients left, beside those of the start."""
MAX_SHOWN: Final = 20
FLAT_AFTER: Final = 600
"""Looks, one a second, from which on the memory of the second half is compared with that of the first."""
MAX_SECOND_HALF: Final = 1.25


@dataclass(frozen=True, slots=True)
class Limits:
    """The longest waits in milliseconds for an honest client; the longest wait of the machine itself is added."""

    longest_ms: float = 1_000.0
    p99_ms: float = 250.0


def percentile(values: list[float], share: float) -> float:
    """The value below which ``share`` of the values lie; 0 of none."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(len(ranked) * share))] if ranked else 0.0


def wrong(report: Report, watched: Watched, exit_code: int | None, limits: Limits) -> list[str]:
    """Every sentence about what went wrong; none if all is well."""
    return [
        *report.wrong[:MAX_SHOWN],
        *([f"… and {len(report.wrong) - MAX_SHOWN} more"] if len(report.wrong) > MAX_SHOWN else []),
        *_nothing_done(report),
        *_waits(report, limits),
        *_taken(watched),
        *[f"log: {line[:3_000]}" for line in watched.wrong_lines[:MAX_SHOWN]],
        *([] if exit_code == 0 else [f"the server ended with {exit_code}, not 0"]),
    ]


def _nothing_done(report: Report) -> Iterator[str]:
    if not report.sent or not report.received or not report.popped:
        yield f"the honest clients did nothing: {report.sent} sent, {report.received} received, {report.popped} popped"


def _waits(report: Report, limits: Limits) -> Iterator[str]:
    for kind, waits in report.waits_ms.items():
        longest, p99 = max(waits), percentile(waits, 0.99)
        if longest > limits.longest_ms + report.machine_ms:
            yield f"a {kind} waited {longest:.0f} ms, the machine itself {report.machine_ms} ms"
        if p99 > limits.p99_ms + report.machine_ms:
            yield f"one {kind} in a hundred waited {p99:.0f} ms, the machine itself {report.machine_ms} ms at most"


def _taken(watched: Watched) -> Iterator[str]:
    growth = watched.most.rss_bytes - watched.start.rss_bytes
    if growth > MAX_GROWTH_BYTES:
        yield f"memory grew by {growth >> 20} MiB"
    if watched.most.threads > watched.start.threads + MAX_MORE_THREADS:
        yield f"{watched.most.threads} threads, at the start {watched.start.threads}"
    if watched.last.sockets > watched.start.sockets + MAX_SOCKETS_LEFT:
        yield f"{watched.last.sockets} sockets were left, at the start {watched.start.sockets}"
    if watched.minutes and max(watched.minutes) > MAX_LINES_A_MINUTE:
        yield f"{max(watched.minutes)} log lines in a minute"
    looks = watched.rss_bytes
    if len(looks) >= FLAT_AFTER:
        # The first quarter fills caches and limits; after it the memory has to stay.
        quarter = len(looks) // 4
        middle, end = max(looks[quarter : 2 * quarter]), min(looks[-quarter:])
        if end > middle * MAX_SECOND_HALF:
            yield f"memory rises: {middle >> 20} MiB in the second quarter, {end >> 20} MiB in the last"


def table(report: Report, watched: Watched, requests: int) -> list[str]:
    """Lines that say what happened, for people."""
    lines = [
        f"{requests:,} requests; honest: {report.sent:,} sent, {report.received:,} received, {report.popped:,} popped",
        f"{'wait, ms':12}{'count':>9}{'p50':>9}{'p99':>9}{'longest':>9}   (machine: {report.machine_ms})",
    ]
    for kind, waits in sorted(report.waits_ms.items()):
        lines.append(
            f"{kind:12}{len(waits):9,}{percentile(waits, 0.5):9.1f}{percentile(waits, 0.99):9.1f}{max(waits):9.1f}"
        )
    start, most, last = watched.start, watched.most, watched.last
    lines.append(f"{'taken':12}{'start':>9}{'most':>9}{'end':>9}")
    for name, values in (
        ("MiB", [value.rss_bytes >> 20 for value in (start, most, last)]),
        ("sockets", [value.sockets for value in (start, most, last)]),
        ("descriptors", [value.descriptors for value in (start, most, last)]),
        ("threads", [value.threads for value in (start, most, last)]),
    ):
        lines.append(f"{name:12}" + "".join(f"{value:9,}" for value in values))
    lines.append(f"log lines by minute: {', '.join(map(str, watched.minutes)) or 'none'}")
    return lines
