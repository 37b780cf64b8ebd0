"""The question: for how long does the broker answer nobody, and what is it doing then.

    python -m benchmarks.pauses                              both flush modes, a minute each
    python -m benchmarks.pauses --seconds 20 --flush SYNC_FLUSH --rate 1000

A gateway with 1,000 topics and settings under which all that could make it pause happens every few seconds: the next
log, queue and index file, flushes, deletion of expired files, saving of tables. A steady load runs beside it
(`benchmarks.paced_load`): sends, transactions, checks, delayed and timed messages, one consumer. Pauses are measured at
the client, whose pace does not wait for answers, and in the server (`benchmarks.timed_server`): a pause there is a turn
of the reactor. Table: for each kind of event how long it took, and the longest turn and the longest wait for an answer
while it went on. Client and server share the machine: a turn may be long because others ran; its processor time and
how often it was put aside are beside it, and for how long a processor stood still meanwhile (`benchmarks.standstill`,
as root), as a virtual machine's do when their host is busy elsewhere. How often they do so anyway is seen before the
server is started. Nothing is taken off a turn for it: run it again when the machine alone has pauses of that length.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import chart, standstill, table
from benchmarks.java_tools import CACHE
from benchmarks.paced_load import QUEUES, Load
from benchmarks.servers import server_environment
from gateway.client.testing.server import free_port
from gateway.clock import wall_clock_ms
from wire.bodies.topics import DataVersion, TopicConfig
from wire.disk.config_json import ConsumerOffsetsFile, TopicsFile

GOAL_MS = 20.0
SETTINGS = {
    "mappedFileSizeCommitLog": 5 << 20,
    "gateway.fileAheadBytes": 1 << 20,
    "mappedFileSizeConsumeQueue": 20_000,
    "maxIndexNum": 40_000,  # the slots as they are: 20 MB
    "fileReservedTime": 0,
    "deleteWhen": ";".join(f"{hour:02d}" for hour in range(24)),
    "cleanResourceInterval": 3_000,
    "deleteCommitLogFilesInterval": 100,
    "flushConsumerOffsetInterval": 3_000,
    "flushConsumeQueueThoroughInterval": 5_000,
    "transactionTimeOut": 2_000,
    "transactionCheckInterval": 1_000,
    "gateway.diskMeasuredBytes": 0,
}
"""Everything happens every few seconds."""
WARM_UP_S = 5.0
QUIET_S = 15.0
"""Without a server, to see what the machine does by itself."""
STEP_S = 0.1
MOST_SHOWN = 12


class Event(NamedTuple):
    """Something that happened in the server."""

    kind: str
    begin: float
    end: float
    on_reactor: bool


@dataclass(frozen=True, slots=True)
class Found:
    """One run; times in seconds of one clock. Turns and answers are (begin, length), in order.

    ``stood_still`` and ``stood_still_before``, without a server, are (begin, end) of when a processor did, or None when
    that could not be seen.
    """

    turns: Sequence[tuple[float, float]]
    answers: Sequence[tuple[float, float]]
    slow: Sequence[tuple[float, float, float, int]]
    events: Sequence[Event]
    stacks: Sequence[tuple[float, list[str]]]
    sent_late_s: Sequence[float]
    stood_still: Sequence[standstill.Interval] | None
    stood_still_before: Sequence[standstill.Interval] | None

    def standstill_s(self, begin: float, length: float) -> float:
        """The time in seconds for which a turn stood still."""
        return standstill.seconds_within(self.stood_still or (), begin, begin + length)


class Longest:
    """The longest of intervals that were going on within a window."""

    def __init__(self, intervals: Sequence[tuple[float, float]]) -> None:
        self._begins = array("d", (begin for begin, _ in intervals))
        self._lengths = array("d", (length for _, length in intervals))
        self._most = max(self._lengths, default=0.0)

    def within(self, begin: float, end: float) -> float:
        """Seconds; 0 when there was none."""
        first, last = bisect_left(self._begins, begin - self._most), bisect_right(self._begins, end)
        return max(
            (self._lengths[n] for n in range(first, last) if self._begins[n] + self._lengths[n] > begin), default=0.0
        )


def prepare(directory: Path, topics: int) -> None:
    """Topics, and offsets of a group in all their queues, as a broker finds them at its start."""
    config = directory / "config"
    config.mkdir(parents=True)
    version = DataVersion(timestamp=wall_clock_ms())
    names = [f"topic-{number:06d}" for number in range(topics)]
    configs = {name: TopicConfig(topic_name=name, read_queue_nums=QUEUES, write_queue_nums=QUEUES) for name in names}
    (config / "topics.json").write_bytes(TopicsFile(configs, version).build())
    offsets = {f"{name}@readers": dict.fromkeys(range(QUEUES), 12_345) for name in names}
    (config / "consumerOffset.json").write_bytes(ConsumerOffsetsFile(offsets, version).build())


def run(flush: str, rate: int, seconds: float, topics: int, options: Sequence[str] = ()) -> Found:
    """A server from start to stop, under load for so long; ``options`` as for `benchmarks.timed_server`."""
    with standstill.Watch() as before:
        threading.Event().wait(QUIET_S)
    CACHE.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="pauses-", dir=CACHE))
    try:
        prepare(directory / "store", topics)
        port = free_port()
        command = [sys.executable, "-m", "benchmarks.timed_server", str(directory / "found.json"), *options]
        command += ["--data", str(directory / "store"), "--port", str(port), "--nameserver-port", str(free_port())]
        for key, value in {**SETTINGS, "flushDiskType": flush}.items():
            command += ["--set", f"{key}={value}"]
        with (directory / "log").open("wb") as log:
            server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=server_environment())
        try:
            with standstill.Watch() as watch:
                load = _loaded(server, port, rate, seconds)
        except BaseException:
            server.kill()
            print((directory / "log").read_text()[-2_000:], file=sys.stderr)
            raise
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
        return _found(json.loads((directory / "found.json").read_text()), load, watch, before)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _loaded(server: subprocess.Popen[bytes], port: int, rate: int, seconds: float) -> Load:
    assert server.stdout is not None
    if not server.stdout.readline().startswith(b"ready"):
        raise SystemExit("the server did not start")
    load = Load(port, rate)
    load.run(WARM_UP_S + seconds)
    load.close()
    return load


def _found(document: dict[str, Any], load: Load, watch: standstill.Watch, before: standstill.Watch) -> Found:
    begin, end = load.sent[0] + WARM_UP_S, load.sent[-1]
    numbers = document["turns"]
    turns = [(b, n) for b, n in zip(numbers[::2], numbers[1::2], strict=True) if begin <= b <= end]
    answers = [pair for pair in load.latencies() if begin <= pair[0]]
    return Found(
        turns=turns,
        answers=answers,
        slow=sorted((each for each in document["slow"] if begin <= each[0] <= end), key=lambda each: -each[1]),
        events=[event for each in document["events"] if begin <= (event := Event(*each)).begin <= end],
        stacks=document["stacks"],
        sent_late_s=sorted(load.late_s[len(load.late_s) - len(answers) :]),
        stood_still=watch.intervals and [each for each in watch.intervals if begin <= each[0] <= end],
        stood_still_before=before.intervals,
    )


# --- the tables ------------------------------------------------------------------------------------------------------


def of_kinds(found: Found) -> Iterator[tuple[str, ...]]:
    """A line for each kind of event."""
    turns, answers = Longest(found.turns), Longest(found.answers)
    kinds: dict[str, list[Event]] = {}
    for event in found.events:
        kinds.setdefault(event.kind, []).append(event)
    for kind, events in sorted(kinds.items()):
        took = [event.end - event.begin for event in events]
        turn = [turns.within(event.begin, event.end) for event in events]
        wait = [answers.within(event.begin, event.end) for event in events]
        where = "reactor" if any(event.on_reactor for event in events) else "thread"
        yield kind, where, f"{len(events):,}", *_three(took), *_three(turn), *_three(wait)
    turn, wait = ([length for _, length in each] for each in (found.turns, found.answers))
    yield "all turns, all answers", "", f"{len(turn):,}", "", "", "", *_three(turn), *_three(wait)


def _three(values: Sequence[float]) -> tuple[str, str, str]:
    ordered = sorted(values)
    found = statistics.median(ordered), ordered[len(ordered) * 99 // 100], ordered[-1]
    return tuple(f"{value * 1000:.1f}" for value in found)  # type: ignore[return-value]


_HEAD = ("ms (median, 99 %, longest)", "where", "times", "event", "", "", "turn", "", "", "answer", "", "")


def longest_turns(found: Found) -> Iterator[str]:
    """The longest turns, what happened in them, and what the threads did."""
    for begin, length, cpu_s, put_aside in found.slow[:MOST_SHOWN]:
        inside = [e for e in found.events if e.begin < begin + length and e.end > begin]
        kinds = sorted({f"{e.kind}{'' if e.on_reactor else ' (thread)'}" for e in inside})
        away = found.standstill_s(begin, length)
        yield (
            f"  {length * 1000:6.1f} ms, of them {cpu_s * 1000:.1f} on a processor, put aside {put_aside} times"
            f"{f', a processor stood still for {away * 1000:.1f}' if away else ''}: "
            f"{', '.join(kinds) or 'nothing noted'}"
        )
        for moment, threads in found.stacks:
            if begin < moment < begin + length + 0.005:
                yield from (f"           {thread}" for thread in threads[:3])
                break


def report(name: str, found: Found) -> list[str]:
    """The tables as text."""
    rows = [_HEAD, *of_kinds(found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [f"{name}: {len(found.answers):,} messages, {len(found.turns):,} turns"]
    for row in rows:
        cells = [cell.ljust(w) if n < 2 else cell.rjust(w) for n, (cell, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    longest = max((length for _, length in found.turns), default=0.0) * 1000
    busiest = max((cpu_s for _, _, cpu_s, _ in found.slow), default=0.0) * 1000
    late = found.sent_late_s
    lines.append(f"longest turn {longest:.1f} ms, goal ≤ {GOAL_MS:g} ms: {'ok' if longest <= GOAL_MS else 'MISSED'}")
    lines.append(f"most processor time of a turn {busiest:.1f} ms")
    late_ms = late[len(late) * 99 // 100] * 1000, late[-1] * 1000
    lines.append(f"the client was late itself by {late_ms[0]:.1f} ms (99 %), {late_ms[1]:.1f} ms at most")
    lines.append(_of_standstill(found))
    return [*lines, "longest turns:", *longest_turns(found)]


def _of_standstill(found: Found) -> str:
    if found.stood_still is None or found.stood_still_before is None:
        return "whether a processor stood still is not known: that takes real-time priority (root)"
    under_load, before = (
        f"{len(times)} times, {max((end - begin for begin, end in times), default=0.0) * 1000:.1f} ms at most"
        for times in (found.stood_still, found.stood_still_before)
    )
    return f"a processor stood still {under_load}; in {QUIET_S:g} s before the server was started {before}"


def panel(name: str, found: Found) -> chart.Panel:
    """Longest turn and longest wait in each tenth of a second, and when what happened."""
    begin = found.answers[0][0]
    lines: dict[str, list[chart.Point]] = {}
    for label, intervals in (("longest answer, ms", found.answers), ("longest turn, ms", found.turns)):
        most: dict[int, float] = {}
        for moment, length in intervals:
            step = int((moment - begin) / STEP_S)
            most[step] = max(most.get(step, 0.0), length)
        lines[label] = [(step * STEP_S, length * 1000) for step, length in sorted(most.items())]
    marks: dict[str, list[float]] = {}
    for event in found.events:
        if not event.kind.startswith(("job", "log file synced", "checkpoint", "table: copied")):
            marks.setdefault(event.kind, []).append(event.begin - begin)
    if found.stood_still:
        marks["a processor stood still"] = [since - begin for since, _ in found.stood_still]
    marks = {kind: places for kind, places in sorted(marks.items()) if len(places) < 1_000}
    return chart.Panel(name, "seconds", lines, marks, is_log=(False, True))


def _seconds(text: str) -> float:
    if not (seconds := float(text)) >= 1:
        raise ValueError
    return seconds


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pauses", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--flush", choices=("ASYNC_FLUSH", "SYNC_FLUSH", "both"), default="both")
    parser.add_argument("--rate", type=int, default=1_500, help="messages a second")
    parser.add_argument("--seconds", type=_seconds, default=60, help="from 1 on (default: 60)")
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--switch-interval-ms", type=float, help="of the server's threads, instead of its own")
    parser.add_argument("--output", type=Path, default=CACHE / "results" / "pauses")
    options = parser.parse_args()
    rest = [] if options.switch_interval_ms is None else [f"--switch-interval-ms={options.switch_interval_ms}"]
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # else the server would be left behind
    modes = ("ASYNC_FLUSH", "SYNC_FLUSH") if options.flush == "both" else (options.flush,)
    lines, panels = [f"{options.rate} messages a second, {options.topics} topics; {table.machine()}"], []
    for flush in modes:
        found = run(flush, options.rate, options.seconds, options.topics, rest)
        lines += ["", *report(flush, found)]
        panels.append(panel(flush, found))
    table.write_report(options.output, lines, chart.page("Pauses under load", panels, columns=1))


if __name__ == "__main__":
    main()
