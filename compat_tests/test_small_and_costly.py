"""Small requests that once froze the process hold up nobody; ``small_and_costly`` has more kinds of them."""

from __future__ import annotations

from compat_tests.small_and_costly import MOST_BYTES, run

KINDS = ("endless_queues", "numbers", "poison", "lenient", "locks")
LONGEST_S = 3.0
"""An honest client's wait beside other tests on the same processors; alone it is 0.5 s at most. Each of these once took
between five seconds and a minute, or all memory."""


def test_small_requests_that_cost_much_hold_up_nobody() -> None:
    for seen in run(KINDS, rounds=1):
        assert max(seen.waits_s) < LONGEST_S, seen
        assert seen.peak_bytes < MOST_BYTES, seen
