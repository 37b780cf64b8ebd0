"""Which signals stop a command, and how those that are no servers stop.

A signal that nobody listens to ends the process where it stands: a server then leaves ``abort`` behind, ``consume``
does not commit what it has printed.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from types import FrameType

STOPPING = ("SIGTERM", "SIGINT", "SIGHUP")
"""SIGHUP: the terminal was closed."""
WITHOUT_EFFECT = ("SIGQUIT", "SIGUSR1", "SIGUSR2")
"""A server goes on after them: SIGQUIT asks a Java broker for its threads, the others make some servers reload."""
INTERRUPTING = ("SIGTERM", "SIGHUP", "SIGQUIT")
"""What ends a command that is no server as Ctrl-C does; a terminal sends SIGQUIT at Ctrl and a backslash."""
UNHEARD = ("SIGUSR1", "SIGUSR2")
"""A command that is no server goes on after them."""
IMPATIENCE_S = 1.0
"""A terminal, ``timeout`` or make may deliver one wish to stop twice within milliseconds."""


def wanted(names: Sequence[str]) -> Iterator[signal.Signals]:
    """Those of the signals that the system knows and that are not to be ignored: ``nohup`` asks for that."""
    for name in names:
        number = getattr(signal, name, None)  # Windows has few
        if number is not None and (signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGINT):
            yield number


def interrupt_as_ctrl_c() -> None:
    """Let signals that stop a command do what Ctrl-C does, and those that mean nothing here do nothing.

    The programs that a command starts may listen to the latter: only ignored signals are inherited, handlers are not.
    """
    asked_at_s = -IMPATIENCE_S

    def received(number: int, frame: FrameType | None) -> None:
        nonlocal asked_at_s
        del number, frame
        now_s = time.monotonic()
        if now_s - asked_at_s >= IMPATIENCE_S:
            asked_at_s = now_s
            raise KeyboardInterrupt

    def received_in_vain(number: int, frame: FrameType | None) -> None:
        del number, frame

    for number in wanted(INTERRUPTING):
        signal.signal(number, received)
    for number in wanted(UNHEARD):
        signal.signal(number, received_in_vain)
