"""Small requests that once froze the process hold up nobody; ``small_and_costly`` has more kinds of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from compat_tests.environment import wait_until
from compat_tests.small_and_costly import MOST_BYTES, Seen, run
from compat_tests.unread_answers import Longest, processor_wait_s
from gateway.tests.stalls import Stalls

KINDS = ("endless_queues", "numbers", "poison", "lenient", "locks")
LONGEST_S = 3.0
"""An honest client's wait beside other tests on the same processors; alone it is 0.5 s at most.

What the machine made everybody wait comes on top. Each kind once took between five seconds and a minute, or all memory.
"""


def test_small_requests_that_cost_much_hold_up_nobody(tmp_path: Path) -> None:
    with Stalls(tmp_path) as stalls:
        found = run(KINDS, rounds=1)
    for seen in found:
        assert seen.own_wait_s < LONGEST_S + stalls.longest_ms / 1_000, seen
        assert seen.peak_bytes < MOST_BYTES, seen


def test_only_a_wait_for_the_server_itself_is_a_fault() -> None:
    busy_machine = Longest().with_wait(2.0, machine_s=1.7)
    slow_server = busy_machine.with_wait(0.6, machine_s=0.05)

    def fault(*waits: Longest) -> str | None:
        return Seen("offsets", waits, 0, 0, 0, Counter()).fault

    assert fault(busy_machine, Longest()) is None
    assert slow_server.wait_s == 2.0
    assert fault(Longest(), slow_server) == "offsets: others waited 0.55 s, the limit is 0.5 s"


def test_a_process_that_shares_its_processor_waits_for_it() -> None:
    spin = f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})\nwhile True: pass"
    with ExitStack() as ended:
        spinning = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(2)]
        for process in spinning:
            ended.callback(process.wait)
            ended.callback(process.kill)
        for process in spinning:
            wait_until(partial(has_waited, process.pid), "a wait for the processor")


def has_waited(process_id: int) -> bool:
    """Return whether a process has waited for a processor for two hundredths of a second."""
    return processor_wait_s(process_id) > 0.02
