"""The life of a process: start in order, ready line, stop in reverse, and what each failure says."""

from __future__ import annotations

import errno
import gc
import logging
import signal
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.error import CannotListenError
from twisted.internet.task import Clock

from gateway.cli.serving import run, spare_memory, time_slice
from gateway.cli.serving.run import ServerLifetime, listen_to_signals, ready_line, report, serve_until_stopped
from gateway.cli.serving.servers import Part
from gateway.cli.stop_signals import IMPATIENCE_S
from gateway.errors import GatewayError, SettingsError
from gateway.settings import Address, Settings
from gateway.tests.cli.unheard_signals import unheard_signals_fail


class FakeServer:
    """Notes what is done to it; ``on_start`` and ``on_stop`` may raise or return a Deferred to wait for."""

    def __init__(self, name: str, done: list[str], port: int = 1) -> None:
        self.addresses: Sequence[tuple[str, int]] = [("127.0.0.1", port)]
        self.told: Address | None = None
        self.on_start: Callable[[], Any] = lambda: None
        self.on_stop: Callable[[], Any] = lambda: None
        self._name = name
        self._done = done

    @property
    def advertised(self) -> Sequence[Address | None]:
        return [self.told] * len(self.addresses)

    async def start(self) -> None:
        self._done.append(f"start {self._name}")
        await self._whatever(self.on_start())

    async def stop(self) -> None:
        self._done.append(f"stop {self._name}")
        await self._whatever(self.on_stop())

    async def _whatever(self, result: Any) -> None:
        if isinstance(result, Deferred):
            await result


class Process:
    """Two fake servers in a lifetime, and what became of it."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.name_server = FakeServer("nameserver", self.done, 9876)
        self.broker = FakeServer("broker", self.done, 10911)
        self.clock = Clock()
        self.exit_codes: list[int] = []
        parts = [Part("nameserver", self.name_server), Part("broker", self.broker)]
        self.lifetime = ServerLifetime(self.clock, lambda: parts, announce=self.done.append, stop_timeout_s=30)

    def begin(self) -> None:
        ensureDeferred(self.lifetime.run()).addCallback(self.exit_codes.append)


@pytest.fixture(autouse=True)
def _same_garbage_collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


@pytest.fixture
def process() -> Process:
    return Process()


def raising(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


READY = "ready nameserver=127.0.0.1:9876 broker=127.0.0.1:10911"


def test_servers_start_in_order_then_comes_the_ready_line(process: Process) -> None:
    process.begin()
    assert process.done == ["start nameserver", "start broker", READY]
    assert process.exit_codes == []


def test_the_ready_line_waits_for_the_last_start(process: Process) -> None:
    opening: Deferred[None] = Deferred()
    process.broker.on_start = lambda: opening
    process.begin()
    assert READY not in process.done
    opening.callback(None)
    assert process.done[-1] == READY


def test_servers_stop_in_reverse_order_and_the_exit_code_is_0(process: Process) -> None:
    process.begin()
    assert process.lifetime.ask_to_stop("SIGTERM")
    assert process.done[3:] == ["stop broker", "stop nameserver"]
    assert process.exit_codes == [0]


def test_the_process_waits_until_a_stop_has_ended(process: Process) -> None:
    flushing: Deferred[None] = Deferred()
    process.broker.on_stop = lambda: flushing
    process.begin()
    process.lifetime.ask_to_stop("SIGTERM")
    assert process.exit_codes == []
    flushing.callback(None)
    assert process.exit_codes == [0]


def test_a_second_request_to_stop_is_told_apart(process: Process) -> None:
    process.begin()
    assert process.lifetime.ask_to_stop("SIGTERM")
    assert not process.lifetime.ask_to_stop("SIGTERM")


def test_a_stop_asked_for_during_the_start_is_carried_out_without_a_ready_line(process: Process) -> None:
    opening: Deferred[None] = Deferred()
    process.broker.on_start = lambda: opening
    process.begin()
    process.lifetime.ask_to_stop("SIGTERM")
    opening.callback(None)
    assert process.done == ["start nameserver", "start broker", "stop broker", "stop nameserver"]
    assert process.exit_codes == [0]


def test_a_stop_that_never_ends_is_given_up_and_the_others_are_stopped(process: Process) -> None:
    process.broker.on_stop = Deferred
    process.begin()
    process.lifetime.ask_to_stop("SIGTERM")
    process.clock.advance(29)
    assert process.exit_codes == []
    process.clock.advance(1)
    assert process.done[-1] == "stop nameserver"
    assert process.exit_codes == [1]


def test_a_stop_that_fails_is_an_exit_code_and_the_others_are_stopped(process: Process) -> None:
    process.broker.on_stop = raising(OSError(28, "No space left on device"))
    process.begin()
    process.lifetime.ask_to_stop("SIGTERM")
    assert process.done[-1] == "stop nameserver"
    assert process.exit_codes == [1]


def test_a_stop_that_loses_something_says_what_in_one_line(process: Process, caplog: pytest.LogCaptureFixture) -> None:
    process.broker.on_stop = raising(GatewayError("not saved at the stop: a.json"))
    process.begin()
    with caplog.at_level(logging.ERROR, "gateway"):
        process.lifetime.ask_to_stop("SIGTERM")
    assert process.exit_codes == [1]
    [told] = caplog.records
    assert told.facts == {"server": "broker", "reason": "not saved at the stop: a.json"}  # type: ignore[attr-defined]
    assert told.failure is None  # type: ignore[attr-defined]


def test_a_start_that_fails_stops_what_runs_and_says_why(process: Process, capsys: pytest.CaptureFixture[str]) -> None:
    process.broker.on_start = raising(GatewayError("the data directory /d is in use"))
    process.begin()
    assert process.done == ["start nameserver", "start broker", "stop broker", "stop nameserver"]
    assert process.exit_codes == [1]
    assert capsys.readouterr() == ("", "Error: the data directory /d is in use\n")


def test_servers_that_cannot_be_made_say_why(capsys: pytest.CaptureFixture[str]) -> None:
    lifetime = ServerLifetime(Clock(), raising(SettingsError("no")), announce=lambda _: None, stop_timeout_s=1)  # type: ignore[arg-type]
    codes: list[int] = []
    ensureDeferred(lifetime.run()).addCallback(codes.append)
    assert codes == [2]
    assert capsys.readouterr().err == "Error: no\n"


def test_a_server_is_made_when_the_one_before_it_runs(process: Process) -> None:
    def parts() -> Iterator[Part]:
        yield Part("nameserver", process.name_server)
        process.done.append("make broker")
        yield Part("broker", process.broker)

    lifetime = ServerLifetime(process.clock, parts, announce=process.done.append, stop_timeout_s=30)
    ensureDeferred(lifetime.run())
    assert process.done == ["start nameserver", "make broker", "start broker", READY]


def test_a_server_that_cannot_be_made_stops_those_that_run_and_says_why(
    process: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    def parts() -> Iterator[Part]:
        yield Part("nameserver", process.name_server)
        raise SettingsError("no such state store")

    lifetime = ServerLifetime(process.clock, parts, announce=process.done.append, stop_timeout_s=30)
    ensureDeferred(lifetime.run()).addCallback(process.exit_codes.append)
    assert process.done == ["start nameserver", "stop nameserver"]
    assert process.exit_codes == [2]
    assert capsys.readouterr() == ("", "Error: no such state store\n")


def test_after_the_start_garbage_collection_is_rare(process: Process) -> None:
    process.begin()
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == run.GARBAGE_THRESHOLDS


def test_no_collection_keeps_the_first_clients_waiting(process: Process) -> None:
    collections: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        collections.append(f"{phase} {info['generation']}")

    gc.disable()  # as ``main`` does
    gc.callbacks.append(note)
    try:
        process.begin()
    finally:
        gc.callbacks.remove(note)
        gc.enable()
    assert READY in process.done
    assert [told for told in collections if told.endswith("2")] == []


IN_USE = CannotListenError("127.0.0.1", 9876, OSError(98, "Address already in use"))  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (IN_USE, "cannot listen on 127.0.0.1:9876: Address already in use"),
        (PermissionError(13, "Permission denied", "/data"), "/data: Permission denied"),
        (OSError("odd"), "odd"),
    ],
)
def test_a_problem_of_the_system_is_one_line(problem: Exception, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(problem) == 1
    assert capsys.readouterr().err == f"Error: {text}\n"


def test_a_bug_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "gateway.process"):
        assert report(KeyError("x")) == 1
    (record,) = caplog.records
    assert record.getMessage() == "start failed"
    assert isinstance(record.__dict__["failure"], KeyError)


def test_an_ipv6_address_stands_in_brackets() -> None:
    server = FakeServer("broker", [])
    server.addresses = [("::1", 5)]
    assert ready_line([Part("broker", server)]) == "ready broker=[::1]:5"


def test_a_part_of_several_servers_is_told_once_for_each() -> None:
    server = FakeServer("broker", [])
    server.addresses = [("127.0.0.1", 1), ("127.0.0.1", 2)]
    assert ready_line([Part("broker", server)]) == "ready broker=127.0.0.1:1 broker=127.0.0.1:2"


def test_point_17_the_address_that_clients_are_told_follows_the_one_that_is_listened_on() -> None:
    server = FakeServer("broker", [])
    server.addresses = [("127.0.0.1", 1), ("127.0.0.1", 2)]
    server.told = Address("10.0.0.5", 1)
    words = "broker=127.0.0.1:1 advertised=10.0.0.5:1 broker=127.0.0.1:2 advertised=10.0.0.5:1"
    assert ready_line([Part("broker", server)]) == f"ready {words}"


class FakeReactor(Clock):
    """Runs what is scheduled for the start, then what a test does while it runs."""

    def __init__(self, while_running: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.stopped = 0
        self._begin: list[Callable[[], object]] = []
        self._while_running = while_running

    def callWhenRunning(self, function: Callable[[], object]) -> None:  # noqa: N802
        self._begin.append(function)

    def callFromThread(self, function: Callable[..., object], *arguments: object) -> None:  # noqa: N802
        function(*arguments)

    def run(self) -> None:
        for function in self._begin:
            function()
        self._while_running()

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def signals() -> Iterator[None]:
    with unheard_signals_fail():
        yield


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_reactor_with_exit_code_0(process: Process, number: signal.Signals) -> None:
    reactor = FakeReactor(lambda: signal.raise_signal(number))
    assert serve_until_stopped(reactor, process.lifetime) == 0
    assert process.done[-1] == "stop nameserver"
    assert reactor.stopped == 1


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize(("granted", "asked_for"), [(True, [time_slice.SHORT_NS, 0]), (False, [time_slice.SHORT_NS])])
def test_turns_are_short_while_there_is_little_to_do_unless_the_kernel_refuses(
    process: Process, monkeypatch: pytest.MonkeyPatch, *, granted: bool, asked_for: list[int]
) -> None:
    asked: list[int] = []
    worked = iter([0.0, 0.1, 0.2, 1.1, 2.0])

    def give(turn_ns: int) -> bool:
        asked.append(turn_ns)
        return granted

    monkeypatch.setattr(time_slice, "give", give)
    monkeypatch.setattr("time.process_time", lambda: next(worked))
    reactor = FakeReactor(lambda: reactor.pump([run.LOOK_AT_TURNS_EVERY_S] * 5))
    serve_until_stopped(reactor, process.lifetime)
    assert asked == asked_for


@pytest.mark.usefixtures("signals")
def test_a_second_signal_a_second_later_ends_the_process_at_once(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[int] = []
    process.broker.on_stop = Deferred
    process.begin()
    reactor = FakeReactor()
    listen_to_signals(reactor, process.lifetime)
    signal.raise_signal(signal.SIGTERM)
    # What follows would end this process as well.
    monkeypatch.setattr(signal, "raise_signal", raised.append)
    handler = signal.getsignal(signal.SIGTERM)
    assert callable(handler)
    handler(signal.SIGTERM, None)
    assert raised == [], "one wish to stop may be delivered twice"
    reactor.advance(IMPATIENCE_S)
    handler(signal.SIGTERM, None)
    assert raised == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2])
def test_point_9_a_signal_without_a_meaning_is_told_and_ends_nothing(
    process: Process, number: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    def while_running() -> None:
        signal.raise_signal(number)
        process.done.append("goes on")

    with caplog.at_level(logging.WARNING, "gateway"):
        serve_until_stopped(FakeReactor(while_running), process.lifetime)
    assert process.done[-1] == "goes on"
    assert caplog.records[-1].facts == {"signal": number.name, "stop_with": "SIGTERM"}  # type: ignore[attr-defined]


@pytest.mark.usefixtures("signals")
def test_point_9_a_closed_terminal_stops_nothing_that_nohup_started(process: Process) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    serve_until_stopped(FakeReactor(lambda: signal.raise_signal(signal.SIGHUP)), process.lifetime)
    assert process.done[-1] == READY


@pytest.mark.usefixtures("signals")
def test_a_bug_in_the_lifetime_ends_the_process_too(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "report", raising(KeyError("bug")))
    process.broker.on_start = raising(GatewayError("x"))
    reactor = FakeReactor()
    assert serve_until_stopped(reactor, process.lifetime) == 1
    assert reactor.stopped == 1


def test_as_many_files_may_be_open_as_the_system_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    limits: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_024, 65_536))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, pair: limits.append((kind, pair)))
    run.raise_file_limit()
    assert limits == [(resource.RLIMIT_NOFILE, (65_536, 65_536))]


def test_more_connections_than_the_system_allows_are_told_of_and_queue_files_fit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run, "open_files_limit", lambda: 1_000)
    settings = run.fitted(Settings())
    assert settings.max_open_consume_queue_files == 250
    [warning] = caplog.records
    assert warning.__dict__["facts"]["connections_at_most"] == 500


@pytest.mark.parametrize("limit", [None, 1 << 20])
def test_settings_that_fit_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, limit: int | None
) -> None:
    monkeypatch.setattr(run, "open_files_limit", lambda: limit)
    assert run.fitted(Settings()).max_open_consume_queue_files == Settings().max_open_consume_queue_files
    assert caplog.records == []


@pytest.mark.parametrize("part", [run.give_back_memory, run.adapt_turns])
def test_looks_go_on_after_one_for_which_no_descriptor_was_free(
    monkeypatch: pytest.MonkeyPatch, part: Callable[[Any], None]
) -> None:
    looks: list[str] = []

    def path(name: str) -> Any:
        def asked() -> Any:
            looks.append(name)
            raise OSError(errno.EMFILE, "Too many open files")

        return SimpleNamespace(read_text=asked, iterdir=asked)

    monkeypatch.setattr(spare_memory, "SIZES", path("sizes"))
    monkeypatch.setattr(time_slice, "THREADS", path("threads"))
    clock = Clock()
    part(clock)
    for _ in range(4):
        clock.advance(1.0)
    assert len(looks) >= 2
    assert clock.getDelayedCalls()
