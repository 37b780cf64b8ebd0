"""Processors that are kept awake, as `python -m benchmarks --awake` does."""

from __future__ import annotations

import os
import signal

from benchmarks.awake import Awake


def test_each_processor_has_a_program_that_gives_way_to_all_others_and_ends_with_the_block() -> None:
    with Awake() as awake:
        assert {os.sched_getscheduler(process.pid) for process in awake.processes} == {os.SCHED_IDLE}
        kept = [os.sched_getaffinity(process.pid) for process in awake.processes]
        assert kept == [{processor} for processor in sorted(os.sched_getaffinity(0))]
    assert {process.returncode for process in awake.processes} == {-signal.SIGTERM}
