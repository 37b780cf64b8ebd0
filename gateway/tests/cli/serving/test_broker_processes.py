"""Broker processes: started side by side, started again when they end, stopped together, never left behind."""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.error import ProcessDone, ProcessExitedAlready, ProcessTerminated
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from gateway.cli.serving.broker_processes import (
    COMMAND,
    LAST_RESTART_S,
    MAX_OUTPUT_BYTES,
    STEADY_S,
    BrokerProcesses,
    ProcessLife,
    restart_delay_s,
)
from gateway.cli.serving.members import BrokerMember
from gateway.errors import GatewayError
from gateway.settings import Address
from gateway.store.errors import StoreInUse, StoreNotAccessible


class Spawned:
    """A process that was started."""

    def __init__(self, life: ProcessLife, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.life = life
        self.arguments = arguments
        self.environment = environment
        self.signals: list[str] = []
        self.is_over = False

    def signalProcess(self, name: str) -> None:  # noqa: N802
        if self.is_over:
            raise ProcessExitedAlready
        self.signals.append(name)

    def ready(self, port: int) -> None:
        self.life.outReceived(b"ready broker=127.0.0.1:%d\n" % port)

    def end(self, exit_code: int = 0, signal: int | None = None) -> None:
        self.is_over = True
        done, terminated, failure = cast(Any, (ProcessDone, ProcessTerminated, Failure))
        self.life.processEnded(failure(terminated(exit_code, signal) if exit_code or signal else done(0)))


class Machine(Clock):
    """A reactor that starts processes which do nothing by themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.spawned: list[Spawned] = []

    def spawnProcess(  # noqa: N802
        self,
        life: ProcessLife,
        executable: str,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        childFDs: Any,  # noqa: N803
    ) -> Spawned:
        assert executable == arguments[0]
        assert childFDs == {0: "w", 1: "r", 2: 2}, "its input is held open, its log is ours"
        self.spawned.append(Spawned(life, arguments, env))
        return self.spawned[-1]


class Group:
    """Two brokers and what became of their starts and stops."""

    def __init__(self, root: Path) -> None:
        self.machine = Machine()
        two = [
            BrokerMember(f"mq-{index}", (("brokerName", f"mq-{index}"),), secrets={"KEY": "geheim"})
            for index in range(2)
        ]
        self.brokers = BrokerProcesses(two, self.machine, lambda: [Address("127.0.0.1", 9876)], root)
        self.outcomes: list[object] = []

    def start(self) -> None:
        ensureDeferred(self.brokers.start()).addBoth(self.outcomes.append)

    def stop(self) -> Deferred[None]:
        return ensureDeferred(self.brokers.stop()).addBoth(self.outcomes.append)

    def started(self) -> list[Spawned]:
        """Both, serving at the ports 1 and 2."""
        self.start()
        for port, process in enumerate(self.machine.spawned, 1):
            process.ready(port)
        assert self.outcomes == [None]
        self.outcomes.clear()
        return list(self.machine.spawned)


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path / "data")


def test_all_start_at_once_and_the_group_is_ready_when_the_last_one_is(group: Group) -> None:
    group.start()
    first, second = group.machine.spawned
    assert first.arguments[1:] == [
        *("-P", "-m", "gateway.cli", "broker", "--supervised"),
        *("--set", "brokerName=mq-0", "--set", "namesrvAddr=127.0.0.1:9876"),
    ]
    second.ready(2)
    assert (group.outcomes, list(group.brokers.addresses)) == ([], [("127.0.0.1", 2)])
    first.ready(1)
    assert (group.outcomes, list(group.brokers.addresses)) == ([None], [("127.0.0.1", 1), ("127.0.0.1", 2)])


def test_what_lies_in_the_working_directory_is_not_run(tmp_path: Path) -> None:
    for name in ("gateway", "logging"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not me')")
    said = subprocess.run([*COMMAND, "version"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert said.stdout.startswith("rocketmq-gateway ")


def test_a_second_server_on_the_directory_is_refused_before_it_makes_anything(group: Group, tmp_path: Path) -> None:
    processes = group.started()
    files = sorted((tmp_path / "data").iterdir())
    second = Group(tmp_path / "data")
    second.start()
    (failure,) = second.outcomes
    assert isinstance(failure, Failure)
    assert isinstance(failure.value, StoreInUse)
    assert f"pid {os.getpid()}" in str(failure.value)
    assert (second.machine.spawned, sorted((tmp_path / "data").iterdir())) == ([], files)
    second.outcomes.clear()
    second.stop()
    group.stop()
    for process in processes:
        process.end()
    third = Group(tmp_path / "data")
    third.started()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    group = Group(tmp_path / "file" / "data")
    group.start()
    (failure,) = group.outcomes
    assert isinstance(failure, Failure)
    assert isinstance(failure.value, StoreNotAccessible)
    assert "Not a directory" in str(failure.value)


def test_variables_that_set_settings_are_not_passed_on(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETMQ_GATEWAY_LISTEN_PORT", "1")
    monkeypatch.setenv("NAMESRV_ADDR", "elsewhere:9876")
    monkeypatch.setenv("TZ", "UTC")
    group.start()
    environment = group.machine.spawned[0].environment
    assert "TZ" in environment
    assert environment["KEY"] == "geheim"
    assert environment.keys().isdisjoint({"ROCKETMQ_GATEWAY_LISTEN_PORT", "NAMESRV_ADDR"})


@pytest.mark.parametrize(("exit_code", "signal", "expected"), [(2, None, 2), (0, None, 1), (0, 9, 1)])
def test_a_broker_that_does_not_start_ends_the_start_with_its_exit_code(
    group: Group, exit_code: int, signal: int | None, expected: int
) -> None:
    group.start()
    first, second = group.machine.spawned
    first.ready(1)
    second.end(exit_code, signal)
    (failure,) = group.outcomes
    assert isinstance(failure, Failure)
    assert isinstance(failure.value, GatewayError)
    assert failure.value.exit_code == expected
    assert "broker mq-1 did not start" in str(failure.value)
    group.outcomes.clear()
    group.stop()
    assert first.signals == ["TERM"]
    first.end()
    assert group.outcomes == [None]


def test_a_broker_that_ends_is_started_again_where_it_was(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    _, second = group.started()
    with caplog.at_level(logging.INFO, "gateway.supervisor"):
        second.end(0, 9)
        group.machine.advance(0.9)
        assert len(group.machine.spawned) == 2
        group.machine.advance(0.2)
        again = group.machine.spawned[2]
        assert again.arguments[-1] == "listenPort=2"
        again.ready(2)
    assert [record.getMessage() for record in caplog.records] == ["broker ended", "broker is back"]
    assert caplog.records[0].__dict__["facts"]["exit_code"] == -9


def test_a_broker_that_keeps_ending_is_started_ever_later(group: Group) -> None:
    group.started()
    delays = []
    for _ in range(8):
        group.machine.spawned[-1].end(1)
        (call,) = group.machine.getDelayedCalls()
        delays.append(call.getTime() - group.machine.seconds())
        group.machine.advance(delays[-1])
    assert delays == [1, 2, 4, 8, 16, LAST_RESTART_S, LAST_RESTART_S, LAST_RESTART_S]
    group.machine.spawned[-1].ready(2)
    group.machine.advance(STEADY_S)
    group.machine.spawned[-1].end(1)
    (call,) = group.machine.getDelayedCalls()
    assert call.getTime() - group.machine.seconds() == restart_delay_s(1)


def test_the_group_has_stopped_when_every_process_has(group: Group) -> None:
    first, second = group.started()
    group.stop()
    assert (first.signals, second.signals) == (["TERM"], ["TERM"])
    second.end()
    assert group.outcomes == []
    first.end()
    assert group.outcomes == [None]
    group.machine.advance(60)
    assert len(group.machine.spawned) == 2, "what was stopped is not started again"


def test_a_broker_that_is_to_start_again_is_not_when_the_group_stops(group: Group) -> None:
    first, second = group.started()
    second.end(1)
    group.stop()
    first.end()
    group.machine.advance(60)
    assert group.outcomes == [None]
    assert len(group.machine.spawned) == 2


def test_a_loss_at_the_stop_is_told(group: Group) -> None:
    first, second = group.started()
    group.stop()
    first.end()
    second.end(1)
    (failure,) = group.outcomes
    assert isinstance(failure, Failure)
    assert str(failure.value) == "brokers that did not stop as they should: mq-1 (exit code 1)"


def test_who_does_not_stop_in_time_is_killed(group: Group) -> None:
    first, second = group.started()
    stopping = group.stop()
    first.end()
    stopping.cancel()
    assert second.signals == ["TERM", "KILL"]
    (failure,) = group.outcomes
    assert isinstance(failure, Failure)
    assert str(failure.value) == "brokers that did not stop as they should: mq-1 (killed)"
    second.end(0, 9)


def test_an_end_that_we_hear_of_late_is_an_end(group: Group) -> None:
    first, second = group.started()
    first.is_over = second.is_over = True
    group.stop()
    first.end()
    second.end()
    assert group.outcomes == [None]


def test_only_a_ready_line_is_one_and_endless_output_is_not_kept() -> None:
    ready: list[tuple[Address, Address | None]] = []
    life = ProcessLife(lambda *told: ready.append(told), lambda _: None)
    for piece in (b"hello\nready bro", b"ker=[::1]:5", b"\nready to go\nready broker=1.2.3.4:5 advertised=mq:6\n"):
        life.outReceived(piece)
    assert ready == [(("::1", 5), None), (("1.2.3.4", 5), ("mq", 6))]
    for _ in range(4):
        life.outReceived(b"x" * MAX_OUTPUT_BYTES)
    assert len(life._output) == MAX_OUTPUT_BYTES


def test_point_17_the_group_tells_what_the_clients_of_each_are_told(group: Group) -> None:
    group.start()
    first, second = group.machine.spawned
    first.ready(1)
    second.life.outReceived(b"ready broker=127.0.0.1:2 advertised=10.0.0.5:2\n")
    assert group.outcomes == [None]
    assert group.brokers.addresses == [("127.0.0.1", 1), ("127.0.0.1", 2)]
    assert group.brokers.advertised == [None, ("10.0.0.5", 2)]
