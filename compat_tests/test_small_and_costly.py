"""Small requests that once froze the process hold up nobody; ``small_and_costly`` has more kinds of them."""

from __future__ import annotations

from pathlib import Path

from compat_tests.small_and_costly import MOST_BYTES, run
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
        assert max(seen.waits_s) < LONGEST_S + stalls.longest_ms / 1_000, seen
        assert seen.peak_bytes < MOST_BYTES, seen
