"""`rocketmq-gateway serve` in this process, with everything timed that could keep its reactor from answering.

    python -m benchmarks.timed_server FOUND.json [--switch-interval-ms=X] --data DIR ...      the options of `serve`

For `benchmarks.pauses`. A *turn* is what the reactor does between two waits; while one lasts nobody is answered. What
else happens meanwhile, in whatever thread, is noted with begin and end: files made, synced and deleted, tables saved,
collections of garbage, periodic jobs. When a turn takes long, a watching thread notes what every thread was doing.
"""

from __future__ import annotations

import functools
import gc
import json
import resource
import sys
import threading
import time
import traceback
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.cli.serving import run
from gateway.reactor import deputy
from gateway.store.disk.files import Buffer, FileLayer

if TYPE_CHECKING:
    from gateway.broker.upkeep.upkeep import Job

SLOW_S = 0.005
"""Of turns that take longer it is kept what they were made of."""
WATCHED_S = 0.010
"""After so much of a turn it is noted what the threads do."""
WATCH_PERIOD_S = 0.005
STACK_DEPTH = 6
MAX_STACKS = 2_000

now = time.monotonic


class Events:
    """The events: kind, begin, end, and whether the reactor did the work itself, in whichever thread it runs."""

    def __init__(self) -> None:
        self.found: list[tuple[str, float, float, bool]] = []
        self._reactor = {threading.main_thread().name, deputy.THREAD_NAME}

    def add(self, kind: str, begin: float) -> None:
        """Something ends now."""
        self.found.append((kind, begin, now(), threading.current_thread().name in self._reactor))

    @contextmanager
    def of(self, kind: str) -> Iterator[None]:
        """Something that begins and ends."""
        begin = now()
        try:
            yield
        finally:
            self.add(kind, begin)

    def timed(self, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the same function; each call is noted."""

        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            with self.of(kind):
                return function(*arguments, **named)

        return call


class TimedFiles(FileLayer):
    """The operating system's files; what is done to them is noted."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._kinds: dict[int, str] = {}

    def open(self, path: Path, *, create: bool = False) -> int:
        """Implement ``FileLayer``."""
        kind = _kind(path)
        with self._events.of(f"{kind} file {'made' if create else 'opened'}"):
            fd = super().open(path, create=create)
        self._kinds[fd] = kind
        return fd

    def fdatasync(self, fd: int) -> None:
        """Implement ``FileLayer``."""
        with self._events.of(f"{self._kinds.get(fd, 'other')} file synced"):
            super().fdatasync(fd)

    def pwrite(self, fd: int, data: Buffer, offset: int) -> None:
        """Write, and note the write if it is slow."""
        begin = now()
        super().pwrite(fd, data, offset)
        if now() - begin > SLOW_S:
            self._events.add(f"{self._kinds.get(fd, 'other')} file: slow write", begin)

    def unlink(self, path: Path) -> None:
        """Implement ``FileLayer``."""
        with self._events.of(f"{_kind(path)} file deleted"):
            super().unlink(path)


def _kind(path: Path) -> str:
    for kind, name in (("commitlog", "log"), ("consumequeue", "queue"), ("index", "index")):
        if kind in path.parts:
            return name
    return "checkpoint" if path.name == "checkpoint" else "other"


class TimedPoller:
    """The reactor's epoll object, between whose waits the turns lie.

    A turn that waits for the disk ends when its thread waits for events, or when a deputy does in its stead. Its
    processor time is that of the thread that began it.
    """

    def __init__(self, poller: Any) -> None:
        self._poll = poller.poll
        for name in ("register", "modify", "unregister", "close", "fileno"):
            setattr(self, name, getattr(poller, name))
        self.woke = now()
        self.turns = array("d")  # begin and length, by turns
        self.slow: list[tuple[float, float, float, int]] = []
        self._begin()

    def poll(self, timeout: float, most: int) -> Any:
        """Wait; before that a turn ends, after it the next one begins."""
        length = now() - self.woke
        self.turns.extend((self.woke, length))
        if length > SLOW_S:
            cpu_s = time.clock_gettime(self._clock) - self._cpu_s
            self.slow.append((self.woke, length, cpu_s, _times_put_aside(self._thread) - self._put_aside))
        self.woke = float("inf")
        found = self._poll(timeout, most)
        self._begin()
        return found

    def _begin(self) -> None:
        self._thread = threading.get_native_id()
        self._clock = time.pthread_getcpuclockid(threading.get_ident())
        self._cpu_s = time.thread_time()
        self._put_aside = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
        self.woke = now()


def _times_put_aside(thread: int) -> int:
    """Return how often another program ran although the thread was ready to run."""
    status = Path(f"/proc/self/task/{thread}/status").read_text()
    return int(status.rpartition("nonvoluntary_ctxt_switches:")[2])


class Watch:
    """A thread that looks at the others while a turn is long, and notes when it was kept from running itself."""

    def __init__(self, poller: TimedPoller, events: Events) -> None:
        self._poller = poller
        self._events = events
        self._own = 0
        self.stacks: list[tuple[float, list[str]]] = []
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    def _run(self) -> None:
        self._own = threading.get_ident()
        pause = threading.Event()
        while True:
            begin = now()
            pause.wait(WATCH_PERIOD_S)
            late = now() - begin - WATCH_PERIOD_S
            if late > SLOW_S:
                self._events.add("watching thread kept waiting", begin + WATCH_PERIOD_S)
            if (late > SLOW_S or now() - self._poller.woke > WATCHED_S) and len(self.stacks) < MAX_STACKS:
                self.stacks.append((now(), self._look()))

    def _look(self) -> list[str]:
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        found = []
        for ident, frame in sys._current_frames().items():
            calls = traceback.extract_stack(frame)[-STACK_DEPTH:]
            if ident != self._own and calls and calls[-1].name not in ("wait", "_worker", "poll"):
                found.append(f"{names.get(ident)}: " + " > ".join(f"{Path(c.filename).stem}.{c.name}" for c in calls))
        return found


def main() -> None:
    """Serve until the signal; then write what was found."""
    output = Path(sys.argv.pop(1))
    if sys.argv[1].startswith("--switch-interval-ms="):
        run.SWITCH_INTERVAL_S = float(sys.argv.pop(1).partition("=")[2]) / 1000
    events = Events()
    _follow_tables(events)
    _follow_jobs(events)
    _follow_garbage(events)
    pollers: list[TimedPoller] = []
    watches: list[Watch] = []
    install = run.install_reactor

    def install_timed(**ways: bool) -> Any:
        reactor = install(**ways)
        reactor._poller = TimedPoller(reactor._poller)
        pollers.append(reactor._poller)
        watches.append(Watch(reactor._poller, events))
        return reactor

    run.install_reactor = install_timed
    run.run = functools.partial(run.run, files=TimedFiles(events))
    from gateway.cli.main import main as gateway

    try:
        sys.argv[1:1] = ["serve"]
        gateway()
    finally:
        poller = pollers[0]
        found = {
            "turns": list(poller.turns),
            "slow": poller.slow,
            "events": events.found,
            "stacks": watches[0].stacks,
        }
        output.write_text(json.dumps(found))


def _follow_tables(events: Events) -> None:
    from gateway.metadata.saved import write_behind
    from gateway.metadata.saved.json_file import JsonFile
    from gateway.metadata.saved.write_behind import WriteBehind
    from gateway.store.durability.flushing import Flushing
    from gateway.store.space.deletion import Deletion

    for owner, name, kind in (
        (write_behind, "_text", "table: text made"),
        (JsonFile, "write", "table: saved"),
        (WriteBehind, "_start", "table: copied"),
        (Deletion, "_survey", "retention: looked"),
        (Deletion, "detach", "retention: detached"),
        (Flushing, "flush", "flush of everything"),
    ):
        setattr(owner, name, events.timed(kind, getattr(owner, name)))


def _follow_jobs(events: Events) -> None:
    from gateway.broker.upkeep.upkeep import Upkeep

    make = Upkeep.__init__

    def make_timed(upkeep: Upkeep, reactor: Any, jobs: Sequence[Job], *rest: Any) -> None:
        timed = [replace(job, run=events.timed(f"job: {job.name}", job.run)) for job in jobs]
        make(upkeep, reactor, timed, *rest)

    Upkeep.__init__ = make_timed  # type: ignore[method-assign, assignment]


def _follow_garbage(events: Events) -> None:
    begun = 0.0

    def follow(phase: str, about: dict[str, int]) -> None:
        nonlocal begun
        if phase == "start":
            begun = now()
        else:
            events.add(f"garbage, generation {about['generation']}", begun)

    gc.callbacks.append(follow)


if __name__ == "__main__":
    main()
