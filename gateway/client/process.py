"""Which process this is, without asking the system each time: every send checks that it was not forked.

``process.number`` is read as an attribute of the module, since a fork changes it in the child.
"""

from __future__ import annotations

import os

number = os.getpid()
"""The process id."""


def _renew() -> None:
    global number
    number = os.getpid()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_renew)
