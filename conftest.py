"""Tests begin with the signals of a terminal, also where `nohup`, or a shell in the background, has them ignored."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Take back what this process was started with; its children start with the same."""
    for name in ("SIGHUP", "SIGQUIT"):
        number = getattr(signal, name, None)  # Windows has neither
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
