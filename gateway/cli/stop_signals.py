"""The signals that stop a command, and the way in which commands other than servers stop.

A signal without a handler ends the process at once. A server then leaves ``abort`` behind, and ``consume`` does not
commit the messages that it has printed.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from types import FrameType

STOPPING = ("SIGTERM", "SIGINT", "SIGHUP")
"""The signals that stop a server; SIGHUP means that the terminal was closed."""
WITHOUT_EFFECT = ("SIGQUIT", "SIGUSR1", "SIGUSR2")
"""The signals after which a server continues.

SIGQUIT asks a Java broker for its threads; the other signals make some servers reload.
"""
INTERRUPTING = ("SIGTERM", "SIGHUP", "SIGQUIT")
"""The signals that end a command other than a server, as Ctrl-C does.

A terminal sends SIGQUIT at Ctrl and a backslash.
"""
UNHEARD = ("SIGUSR1", "SIGUSR2")
"""The signals after which a command other than a server continues."""
IMPATIENCE_S = 1.0
"""Seconds in which a second signal counts as the same wish to stop.

A terminal, ``timeout`` or make may deliver one wish twice within milliseconds.
"""


def wanted(names: Sequence[str]) -> Iterator[signal.Signals]:
    """Yield the signals that the system knows and that are not ignored at the start, as ``nohup`` demands.

    SIGINT is always yielded.
    """
    for name in names:
        number = getattr(signal, name, None)  # Windows has few
        if number is not None and (signal.getsignal(number) is not signal.SIG_IGN or number == signal.SIGINT):
            yield number


def interrupt_as_ctrl_c() -> None:
    """Make stopping signals act like Ctrl-C, and make signals without a meaning here do nothing.

    These last signals get a handler and are not ignored, because programs that a command starts may listen to them:
    ignored signals are inherited, handlers are not.
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
