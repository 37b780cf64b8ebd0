"""A short soak: what was acknowledged survives each fault under the load of Java clients. See `compat_tests.soak`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from compat_tests.java_client import JavaClient
from compat_tests.soak.plan import Fault
from compat_tests.soak.small_disk import NotPossible
from compat_tests.soak.soak import Report, Wanted, soak
from compat_tests.soak.table import lines

SEED = 7
PAUSE_S = 4.0
"""Longer than the clients wait for an answer; `make soak` pauses for 30 s."""


def run(client: JavaClient, directory: Path, faults: Sequence[Fault], rounds: int) -> Report:
    """A soak in which nothing may be wrong."""
    wanted = Wanted(seed=SEED, faults=faults, directory=directory / "soak", rounds=rounds, stop_s=PAUSE_S)
    report = soak(client, wanted, print)
    assert report.findings.is_clean, "\n".join(["something is wrong", *lines(report)])
    assert report.rounds.total() == rounds
    for name, account in report.load.accounts.items():
        assert account.acknowledged > 0, f"{name} sent nothing"
        assert account.found >= account.committed if account.committed else account.found >= account.acknowledged
    return report


def test_nothing_promised_is_lost_by_kills_under_load(
    newest_client: JavaClient, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    rounds = int(request.config.getoption("--rounds"))
    report = run(newest_client, tmp_path, (Fault.KILL,), rounds)
    assert report.broker.kills > rounds  # one more before the last reading


def test_nothing_promised_is_lost_by_failing_writes_and_a_broker_that_stands_still(
    newest_client: JavaClient, tmp_path: Path
) -> None:
    run(newest_client, tmp_path, (Fault.EIO, Fault.STOP), 2)


def test_nothing_promised_is_lost_on_a_full_or_read_only_disk(newest_client: JavaClient, tmp_path: Path) -> None:
    try:
        report = run(newest_client, tmp_path, (Fault.DISK_FULL, Fault.READ_ONLY), 2)
    except NotPossible as reason:
        if "CI" in os.environ:
            raise
        pytest.skip(str(reason))
    assert report.load.refusals["14"] > 0, "a full disk is told to the clients as SERVICE_NOT_AVAILABLE"
