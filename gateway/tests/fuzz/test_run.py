"""Half a minute of the fuzzer against a real server, less with accounts: honest clients are served as promised."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.tests.fuzz.accounts.party import Kind
from gateway.tests.fuzz.run import Plan, run
from gateway.tests.fuzz.verdict import Limits
from wire.compiled import IS_COMPILED

PATIENCE = Limits(longest_ms=3_000.0, p99_ms=1_000.0)
"""Several times what a run by hand allows: machines that run tests are slow and shared."""


@pytest.mark.long
@pytest.mark.parametrize(("accounts", "minutes"), [(Kind.NONE, 0.5), (Kind.USERS, 0.2), (Kind.PLAIN, 0.2)])
def test_honest_clients_beside_the_fuzzer(tmp_path: Path, accounts: Kind, minutes: float) -> None:
    said: list[str] = []
    compiled = IS_COMPILED
    plan = Plan(minutes, 34, 80, tmp_path / "fuzz", compiled, PATIENCE, accounts)
    assert run(plan, said.append) == [], "\n".join(said)
