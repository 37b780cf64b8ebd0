"""The id of this process without a system call: every send checks that the process is not a forked child.

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
