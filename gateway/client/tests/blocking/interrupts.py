"""Signals whose handlers raise, at each moment at which one can reach a thread; made by the trace function."""

from __future__ import annotations

import dis
import gc
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

LONGEST_S = 30.0

any_moment = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="it knows the moments of Python 3.11")
"""``test_pythons`` sends real signals, on each Python."""


class Interrupted(BaseException):
    """The exception that the handler of a signal raises."""


def interrupted(act: Callable[[], object]) -> Iterator[BaseException]:
    """Act again and again, with an interrupt at a later moment each time, until one comes too late; what each raises.

    The moments are those at which Python runs the handlers of signals: after a call, and at the start of a function
    and of a turn of a loop.
    """
    for wanted in itertools.count():
        interrupt = _Interrupt(wanted)
        before = sys.gettrace()
        gc.disable()  # what it calls swallows exceptions
        sys.settrace(interrupt.trace)
        try:
            act()
            raised: BaseException | None = None
        except BaseException as error:  # noqa: BLE001 - it is what the test looks at
            raised = error
        finally:
            sys.settrace(before)
            gc.enable()
        if not interrupt.is_over:
            assert wanted > 10, "there is more than a few moments"
            return
        assert raised is not None, f"the interrupt at moment {wanted} is lost"
        yield raised


class _Interrupt:
    """Raises at the moment of a number."""

    def __init__(self, wanted: int) -> None:
        self.is_over = False
        self._wanted = wanted
        self._moments = 0
        self._done: dict[FrameType, str] = {}

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_name in ("__del__", "_remove"):  # of weak references; these swallow exceptions, too
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            done = self._done.get(frame)
            self._done[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if done in ("CALL", "CALL_FUNCTION_EX", "RESUME", "JUMP_BACKWARD"):
                self._moments += 1
                if self._moments > self._wanted:
                    sys.settrace(None)
                    self._done.clear()
                    self.is_over = True
                    raise Interrupted
        return self.trace


def elsewhere(act: Callable[[], object]) -> None:
    """Act in another thread, which a lock that is never let go would hold up."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(LONGEST_S)
    assert not thread.is_alive()
