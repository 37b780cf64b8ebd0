"""Peers that read none of their large answers cost little memory, give it back, and hold up nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.unread_answers import MIB, run
from gateway.tests.stalls import Stalls

pytestmark = pytest.mark.alone  # it takes times

ROUNDS = 4
MOST_BYTES = 400 * MIB
KEPT_SHARE = 0.1
"""Of the idle server's memory, what may be left after a round."""
LONGEST_S = 2.0
"""An honest client's wait on a machine that is slow or does something else as well; mostly it is 0.3 s at most.

What the machine made everybody wait comes on top.
"""


def test_peers_that_read_nothing_take_no_memory_for_good_and_hold_up_nobody(tmp_path: Path) -> None:
    with Stalls(tmp_path) as stalls:
        idle_bytes, rounds = run(ROUNDS, peers=60, pulls=8, hold_s=2.0)
    longest_s = LONGEST_S + stalls.longest_ms / 1_000
    for seen in rounds:
        assert seen.peak_bytes < MOST_BYTES
        assert seen.after_bytes < KEPT_SHARE * idle_bytes
        assert seen.send.own_s < longest_s
        assert seen.pull.own_s < longest_s
