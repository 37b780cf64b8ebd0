"""The effect of signals on running processes: servers in a terminal, and commands that are clients."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.cli.stop_signals import interrupt_as_ctrl_c
from gateway.tests.cli.unheard_signals import unheard_signals_fail

IN_A_TERMINAL = """
import os, sys
os.login_tty(int(sys.argv[1]))
os.execv(sys.executable, [sys.executable, "-m", "gateway.cli", *sys.argv[2:]])
"""
PATIENCE_S = 60


@pytest.fixture
def _same_handlers() -> Iterator[None]:
    with unheard_signals_fail():
        yield


@pytest.mark.skipif(not hasattr(os, "login_tty"), reason="the system has no terminals")
def test_point_9_signals_leave_a_server_alone_and_the_end_of_its_terminal_stops_it_in_order(tmp_path: Path) -> None:
    master, terminal = os.openpty()
    options = ["--data", str(tmp_path), "--port", "0", "--nameserver-port", "0"]
    command = [sys.executable, "-c", IN_A_TERMINAL, str(terminal), "serve", *options]
    process = subprocess.Popen(command, pass_fds=[terminal], cwd=tmp_path)
    os.close(terminal)
    try:
        said = until(master, b"ready ")
        port = int(said[said.index(b"broker=") :].split()[0].rpartition(b":")[2])
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT):
            process.send_signal(number)
            assert number.name in until(master, b"signal without effect").decode()
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()
        assert (tmp_path / "abort").exists()
        os.close(master)  # the terminal is gone: SIGHUP, and no more output is possible
        assert process.wait(PATIENCE_S) == 0
        assert not (tmp_path / "abort").exists()
    finally:
        process.kill()
        process.wait()


def until(terminal: int, text: bytes) -> bytes:
    """Return the output of a terminal up to the end of the line with ``text``."""
    said = b""
    reader = select.poll()  # select.select refuses descriptors from 1,024 on
    reader.register(terminal, select.POLLIN)
    while text not in said or not said.endswith(b"\n"):
        assert reader.poll(PATIENCE_S * 1000), f"only this was said: {said.decode()}"
        said += os.read(terminal, 4_096)
    return said


@pytest.mark.usefixtures("_same_handlers")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGQUIT"])
def test_point_9_a_client_command_ends_as_with_ctrl_c_and_once(name: str) -> None:
    interrupt_as_ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.Signals[name])
    try:
        for again in ("SIGTERM", "SIGHUP", "SIGQUIT"):  # a terminal and its shell may both tell
            signal.raise_signal(signal.Signals[again])
    except KeyboardInterrupt:
        pytest.fail("it is interrupted twice")


@pytest.mark.usefixtures("_same_handlers")
@pytest.mark.parametrize("name", ["SIGUSR1", "SIGUSR2"])
def test_point_8_a_client_command_goes_on_after_signals_that_mean_nothing_to_it(name: str) -> None:
    interrupt_as_ctrl_c()
    assert signal.getsignal(signal.Signals[name]) not in {signal.SIG_DFL, signal.SIG_IGN}
    signal.raise_signal(signal.Signals[name])
