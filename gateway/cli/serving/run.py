"""Servers in this process: reactor, start, ready line, signals, stop, exit code.

``ServerLifetime`` is the sequence, and knows only a reactor and objects with ``start`` and ``stop``. ``run`` puts the
real ones in. A start-up error is a message on standard error and an exit code, never a traceback.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.defer import TimeoutError as DeferredTimeout
from twisted.internet.error import CannotListenError
from twisted.logger import STDLibLogObserver, globalLogBeginner
from twisted.python.failure import Failure

from gateway.cli.output import say, say_lines
from gateway.cli.stop_signals import IMPATIENCE_S, STOPPING, WITHOUT_EFFECT, wanted
from gateway.errors import GatewayError
from gateway.reactor.interface import TimeSource
from gateway.remoting.descriptors import MOST_RESERVED_SHARE, open_files_limit
from gateway.settings.addresses import Address, is_loopback
from gateway.settings.files.load import Loaded, Role
from gateway.telemetry.logs import EventLog, LimitedLines, write_lines_to

if TYPE_CHECKING:
    from gateway.cli.serving.members import BrokerMember
    from gateway.cli.serving.servers import Part
    from gateway.cli.serving.spare_memory import SpareMemory
    from gateway.cli.serving.time_slice import ShortTurns
    from gateway.settings.tree import Settings
    from gateway.store.disk.files import FileLayer

log = EventLog("process")

LEAST_QUEUE_FILES = 16
"""The smallest ``gateway.maxOpenConsumeQueueFiles``."""
SWITCH_INTERVAL_S = 0.001
"""Seconds after which a thread that returns from fdatasync gets the interpreter: 1 ms instead of Python's 5 ms.

Every answer of a batch waits for this thread. There are few threads, so the extra switches cost nothing measurable.
"""

STOP_MARGIN_S = 5.0
STANDARD_INPUT = 0
LOOK_AT_TURNS_EVERY_S = 1.0
"""Seconds between two looks at the process's share of the processor.

The first look comes after this time, so that no client waits longer for a start.
"""
LOOK_AT_MEMORY_EVERY_S = 1.0
"""Seconds between two looks at the process's memory; one look takes about ten microseconds."""

GARBAGE_THRESHOLDS = (8_000, 1, 4_000)
"""The thresholds of Python's garbage collector.

Messages and commands hold no reference cycles, so collections find nothing and only pause. With Python's first
threshold (700 or 2000 objects), every few hundred requests would cause a collection. The first two numbers limit a
pause: 8,000 objects take up to seven milliseconds, or ten with the survivors of an earlier collection. The third number
delays the collections that look at all objects.
"""

TELL_LEFT_OUT_EVERY_S = 60.0
"""Seconds between two reports of lines that were left out."""


def begin_logging(level: str, **facts: str) -> LimitedLines:
    """Write all log events of this process to standard error from now on, each line with ``facts``.

    Only warnings and errors of Twisted's own events are written; its errors are unhandled failures. Twisted's "Starting
    factory" adds nothing to our events.
    """
    handler = write_lines_to(sys.stderr, logging.getLevelNamesMapping()[level], facts)
    logging.captureWarnings(True)
    logging.getLogger("twisted").setLevel(logging.WARNING)
    globalLogBeginner.beginLoggingTo([STDLibLogObserver("twisted")], redirectStandardIO=False)
    return handler


def tell_regularly(handler: LimitedLines, reactor: TimeSource) -> None:
    """Report left-out lines once a minute, as long as the reactor runs."""

    def tell() -> None:
        handler.tell_left_out()
        reactor.callLater(TELL_LEFT_OUT_EVERY_S, tell)

    reactor.callLater(TELL_LEFT_OUT_EVERY_S, tell)


class ServerLifetime:
    """The time from the first start to the last stop of some servers; run it once.

    :param make_parts: yields the servers; the next server is taken after the one before it runs.
    """

    def __init__(
        self,
        reactor: Any,
        make_parts: Callable[[], Iterable[Part]],
        *,
        announce: Callable[[str], None],
        stop_timeout_s: float,
    ) -> None:
        self._reactor = reactor
        self._make_parts = make_parts
        self._announce = announce
        self._stop_timeout_s = stop_timeout_s
        self._asked_to_stop: Deferred[str] = Deferred()

    async def run(self) -> int:
        """Start in order, announce, wait for the request to stop, stop in reverse order, and return the exit code."""
        started: list[Part] = []
        try:
            for part in self._make_parts():
                started.append(part)
                await part.server.start()
            if not self._asked_to_stop.called:
                self._announce(ready_line(started))
            settle_memory()
            reason = await self._asked_to_stop
        # Whatever ends a start must stop what is running already; ``report`` tells the user.
        except Exception as problem:  # noqa: BLE001
            await self._stop(started, quiet=True)
            return report(problem)
        log.info("stopping", reason=reason)
        return await self._stop(started)

    def ask_to_stop(self, reason: str) -> bool:
        """Begin to stop; return False if a stop was requested before."""
        if self._asked_to_stop.called:
            return False
        self._asked_to_stop.callback(reason)
        return True

    async def _stop(self, started: list[Part], *, quiet: bool = False) -> int:
        exit_code = 0
        for part in reversed(started):
            ending = ensureDeferred(part.server.stop())
            ending.addTimeout(self._stop_timeout_s, self._reactor)
            try:
                await ending
            except DeferredTimeout:
                log.error("stop took too long", server=part.label, limit_s=self._stop_timeout_s)
                exit_code = 1
            except GatewayError as problem:  # something the user has to know, and no defect
                if not quiet:
                    log.error("stopped with a loss", server=part.label, reason=str(problem))
                exit_code = 1
            # The other servers have to be stopped as well, whatever this one raised.
            except Exception as problem:  # noqa: BLE001
                if not quiet:
                    log.error("stop failed", server=part.label, failure=problem)
                exit_code = 1
        if not quiet:
            log.info("stopped", exit_code=exit_code)
        return exit_code


def ready_line(parts: Sequence[Part]) -> str:
    """Return ``ready nameserver=HOST:PORT broker=HOST:PORT advertised=HOST:PORT``, with the servers that run.

    ``advertised=`` follows a broker whose clients get another address than the one on which it listens.
    """
    words = ["ready"]
    for part in parts:
        for address, advertised in zip(part.server.addresses, part.server.advertised, strict=True):
            words.append(f"{part.label}={Address(*address[:2])}")
            words += [] if advertised is None else [f"advertised={advertised}"]
    return " ".join(words)


def report(problem: Exception) -> int:
    """Tell the user why nothing was started, and return the exit code."""
    if isinstance(problem, CannotListenError):
        reason = getattr(problem.socketError, "strerror", None) or problem.socketError
        problem = GatewayError(f"cannot listen on {problem.interface}:{problem.port}: {reason}")
    elif isinstance(problem, OSError) and not isinstance(problem, GatewayError):
        where = f"{problem.filename}: " if problem.filename else ""
        problem = GatewayError(f"{where}{problem.strerror or problem}")
    if isinstance(problem, GatewayError):
        say_lines(f"Error: {problem}", err=True)
        return problem.exit_code
    log.error("start failed", failure=problem)
    return 1


def settle_memory() -> None:
    """Keep the garbage collector away from objects of the start, which live as long as the process.

    No collection runs before that: it would free 1,400 of 100,000 objects and no page, and clients that wait for the
    start would wait 30 ms longer.
    """
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.enable()


def adapt_turns(reactor: Any) -> None:
    """Give the threads of this process the processor as soon as they wake, while they have little to do.

    Other processes that compute then have to wait.
    """
    found: list[ShortTurns] = []

    def look() -> bool:
        from gateway.cli.serving import time_slice  # no start waits for it

        if not found:
            found.append(time_slice.ShortTurns(reactor.seconds, time.process_time, time_slice.give))
            return True
        if found[0].look():
            return True
        log.debug("turns on the processor stay as they are: a busy neighbour holds up answers for longer")
        return False

    look_regularly(reactor, LOOK_AT_TURNS_EVERY_S, look)


def give_back_memory(reactor: Any) -> None:
    """Look for free memory regularly, as ``spare_memory`` describes."""

    @cache
    def memory() -> SpareMemory | None:
        from gateway.cli.serving.spare_memory import spare_memory  # no start waits for it

        return spare_memory()

    def look() -> bool:
        found = memory()
        if found is not None:
            found.look()
        return found is not None

    look_regularly(reactor, LOOK_AT_MEMORY_EVERY_S, look)


def look_regularly(reactor: Any, every_s: float, look: Callable[[], bool]) -> None:
    """Call ``look`` now, and again every ``every_s`` seconds while it returns True.

    An OSError counts as True: without a free descriptor, neither a module nor a system file can be read, and such a
    lack passes.
    """
    try:
        goes_on = look()
    except OSError as error:
        goes_on = True
        log.debug("not looked at this time", reason=str(error))
    if goes_on:
        reactor.callLater(every_s, look_regularly, reactor, every_s, look)


def run(
    role: Role,
    loaded: Loaded,
    files: FileLayer | None = None,
    *,
    members: Sequence[BrokerMember] = (),
    supervised: bool = False,
) -> None:
    """Serve until a signal, and end the process with the exit code.

    :param files: the disk of the broker's store; the operating system's files unless a test brings another disk.
    :param members: brokers to run in processes of their own, instead of one in this process.
    :param supervised: whether this process is such a broker: its log names the broker, and the end of its input ends
        it.
    """
    settings = loaded.settings
    log_lines = begin_logging(settings.log_level, **({"broker": settings.broker_name} if supervised else {}))
    for notice in loaded.notices:
        log.warning(notice)
    for remark in loaded.remarks:
        log.info(remark)
    if not is_loopback(settings.bind_address) and not settings.is_guarded:
        log.warning(
            "listening beyond this machine without authentication: everyone who reaches the ports can read "
            "and write all messages",
            bind_address=settings.bind_address,
        )
    raise_file_limit()
    if sys.platform == "linux":
        from gateway.cli.serving.spare_memory import share_one_heap

        share_one_heap()
    settings = fitted(settings)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    reactor = install_reactor(short_ways=settings.short_ways)
    tell_regularly(log_lines, reactor)
    from gateway.cli.serving.servers import make_parts, make_parts_of_many

    several = partial(make_parts_of_many, members, settings, reactor)
    lifetime = ServerLifetime(
        reactor,
        several if members else partial(make_parts, role, settings, reactor, files),
        announce=say,
        # A broker of several takes its own time before it is killed.
        stop_timeout_s=settings.stop_timeout_ms / 1_000 + (STOP_MARGIN_S if members else 0),
    )
    if supervised:
        stop_with_input(reactor, lifetime)
    sys.exit(serve_until_stopped(reactor, lifetime))


def serve_until_stopped(reactor: Any, lifetime: ServerLifetime) -> int:
    """Run the reactor around a lifetime, and return the exit code."""
    exit_codes: list[int] = []

    def end(result: int | Failure) -> None:
        if isinstance(result, Failure):
            log.error("the process failed", failure=result.value)
        exit_codes.append(1 if isinstance(result, Failure) else result)
        reactor.stop()

    def begin() -> None:
        listen_to_signals(reactor, lifetime)
        ensureDeferred(lifetime.run()).addBoth(end)
        reactor.callLater(LOOK_AT_TURNS_EVERY_S, adapt_turns, reactor)
        reactor.callLater(LOOK_AT_TURNS_EVERY_S, give_back_memory, reactor)

    reactor.callWhenRunning(begin)
    reactor.run()
    return exit_codes[0] if exit_codes else 1


def listen_to_signals(reactor: Any, lifetime: ServerLifetime) -> None:
    """Let signals stop the servers.

    A second signal, ``IMPATIENCE_S`` seconds later or more, ends the process like a crash.

    Acknowledged messages are on disk in both cases, so an impatient operator loses nothing. Signals without a meaning
    here are handled too, because otherwise they would end the process without a stop.
    """
    asked_at_s = 0.0

    def received(number: int, frame: FrameType | None) -> None:
        del frame
        reactor.callFromThread(stop, signal.Signals(number))

    def stop(number: signal.Signals) -> None:
        nonlocal asked_at_s
        if lifetime.ask_to_stop(number.name):
            asked_at_s = reactor.seconds()
        elif reactor.seconds() - asked_at_s >= IMPATIENCE_S:
            log.warning("stopped at once", reason=number.name)
            sys.stderr.flush()
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def received_in_vain(number: int, frame: FrameType | None) -> None:
        del frame
        reactor.callFromThread(tell, signal.Signals(number))

    def tell(number: signal.Signals) -> None:
        log.warning("signal without effect", signal=number.name, stop_with="SIGTERM")

    # After Twisted's own handlers: those would end the reactor before the servers are stopped.
    for number in wanted(STOPPING):
        signal.signal(number, received)
    for number in wanted(WITHOUT_EFFECT):
        signal.signal(number, received_in_vain)


def stop_with_input(reactor: Any, lifetime: ServerLifetime) -> None:
    """Stop when standard input ends. A supervisor holds the input open, so that no broker outlives its supervisor.

    A terminal sends signals to all processes of a group. So the broker gets its own group, and only the supervisor
    receives these signals.
    """
    if hasattr(os, "setpgrp"):  # not on Windows
        os.setpgrp()

    def wait() -> None:
        # Not sys.stdin: a thread that waits in there holds a lock that Python wants at its end.
        while os.read(STANDARD_INPUT, 1_024):
            pass
        reactor.callFromThread(lifetime.ask_to_stop, "the supervisor ended")

    threading.Thread(target=wait, name="supervisor", daemon=True).start()


def install_reactor(*, short_ways: bool = True) -> Any:
    """Make ``QuickEpollReactor`` the reactor on Linux, otherwise Twisted's choice for the platform.

    :param short_ways: False takes Twisted's choice on Linux, too.
    """
    if short_ways and sys.platform == "linux":
        from twisted.internet.main import installReactor

        from gateway.reactor.quick_epoll import QuickEpollReactor

        installReactor(QuickEpollReactor())  # type: ignore[no-untyped-call]
    # The one place that takes the real reactor; everything else is handed it.
    from twisted.internet import reactor  # noqa: TID251

    return reactor


def fitted(settings: Settings) -> Settings:
    """Return the settings with as many open files as the system allows, and warn if this allows fewer connections."""
    limit = open_files_limit()
    if limit is None:
        return settings
    reserved = min(settings.reserved_descriptors, limit // MOST_RESERVED_SHARE)
    if settings.max_connections > limit - reserved:
        log.warning(
            "the system allows fewer open files than connections may be made (ulimit -n, LimitNOFILE)",
            open_files=limit,
            max_connections=settings.max_connections,
            connections_at_most=limit - reserved,
        )
    queue_files = max(min(settings.max_open_consume_queue_files, reserved // 2), LEAST_QUEUE_FILES)
    return replace(settings, max_open_consume_queue_files=queue_files)


def raise_file_limit() -> None:
    """Allow as many open files as the system permits: each connection and each log file needs one."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
