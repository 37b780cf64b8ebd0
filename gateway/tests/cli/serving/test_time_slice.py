"""The kernel gives the threads of a server short turns, and nothing else of them changes."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli.serving import time_slice

SHORTENED = """
import ctypes, os, threading
from gateway.cli.serving.time_slice import ATTRIBUTES, SET_ATTRIBUTES, SHORT_NS, ORDINARY_NS, give

def look():
    wanted = ctypes.create_string_buffer(ATTRIBUTES.size)
    number = SET_ATTRIBUTES[os.uname().machine] + 1  # sched_getattr
    assert ctypes.CDLL(None).syscall(number, 0, wanted, ATTRIBUTES.size, 0) == 0
    _, policy, _, niceness, _, turn, _, _ = ATTRIBUTES.unpack(wanted)
    return policy, niceness, turn

def thread(policy=os.SCHED_OTHER):
    def stay():
        os.sched_setscheduler(0, policy, os.sched_param(0))
        ready.release()
        asked.wait()
        seen.append(look())
    ready, seen = threading.Semaphore(0), []
    running = threading.Thread(target=stay)
    running.start()
    ready.acquire()
    return running, seen

asked = threading.Event()
os.nice(5)
before = look()
threads = [thread(), thread(os.SCHED_BATCH)]
assert give(SHORT_NS)
asked.set()
threads.append(thread())
for running, _ in threads:
    running.join()
ordinary, batch, later = (seen[0] for _, seen in threads)
print(*ordinary[:2], *batch[:2], *later[:2])
print(*(turn if turn else SHORT_NS for turn in (look()[2], ordinary[2], later[2])), batch[2] == before[2])
assert give(ORDINARY_NS)
print(look() == before)
"""


@pytest.mark.parametrize(
    ("worked_s", "passed_s", "turn_ns"),
    [
        (0.06, 1.0, 100_000),
        (0.3, 1.0, 100_000),
        (0.31, 1.0, 0),
        (0.31, 1.1, 100_000),
        (2.0, 1.0, 0),
        (0.0, 0.0, 100_000),
    ],
)
def test_turns_are_short_for_a_process_that_sleeps_most_of_the_time(
    worked_s: float, passed_s: float, turn_ns: int
) -> None:
    assert time_slice.turn_of(worked_s, passed_s) == turn_ns


def test_the_kernel_is_asked_only_when_the_turn_changes() -> None:
    given: list[int] = []
    now_s = iter(range(10))
    worked_s = iter([5.0, 5.1, 5.2, 6.0, 6.9, 7.0])

    def give(turn_ns: int) -> bool:
        given.append(turn_ns)
        return turn_ns > 0

    turns = time_slice.ShortTurns(lambda: next(now_s), lambda: next(worked_s), give)
    assert [turns.look() for _ in range(5)] == [True, True, False, True, True]
    assert given == [100_000, 0, 100_000]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has such turns")
def test_all_ordinary_threads_get_short_turns_and_keep_their_niceness() -> None:
    done = subprocess.run([sys.executable, "-c", SHORTENED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kept, turns, back = done.stdout.splitlines()
    niceness = min(os.nice(0) + 5, 19)
    assert kept == f"0 {niceness} 3 {niceness} 0 {niceness}"
    assert turns == "100000 100000 100000 True"
    assert back == "True"


def test_a_machine_without_a_number_for_the_call_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "m68k")
    assert not time_slice.give(time_slice.SHORT_NS)


def test_a_refusal_of_the_kernel_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slice, "SET_ATTRIBUTES", {platform.machine(): 100_000})  # no such call
    assert not time_slice.give(time_slice.SHORT_NS)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has such turns")
def test_a_thread_that_ends_meanwhile_is_no_refusal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / str(2**22 + 1)).mkdir()  # above the greatest number of a thread
    monkeypatch.setattr(time_slice, "THREADS", tmp_path)
    assert time_slice.give(time_slice.SHORT_NS)
    monkeypatch.setattr("os.sched_getscheduler", lambda thread: os.SCHED_OTHER)  # it was there when it was looked at
    monkeypatch.setattr("os.getpriority", lambda which, thread: 0)
    assert time_slice.give(time_slice.SHORT_NS)


@pytest.mark.parametrize("error", [PermissionError(1, "no"), OSError(38, "no such call")])
def test_a_system_that_does_not_say_how_threads_run_is_a_refusal(
    error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: int) -> int:
        raise error

    monkeypatch.setattr("os.sched_getscheduler", refuse, raising=False)
    assert not time_slice.give(time_slice.SHORT_NS)


def test_a_system_that_does_not_say_what_threads_there_are_is_a_refusal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(time_slice, "THREADS", tmp_path / "proc")
    assert not time_slice.give(time_slice.SHORT_NS)
