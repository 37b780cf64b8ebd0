"""Half a minute of the fuzzer against a real server: honest clients are served as promised."""

from __future__ import annotations

from pathlib import Path

from gateway.tests.fuzz.run import Plan, run
from gateway.tests.fuzz.verdict import Limits
from wire.compiled import IS_COMPILED

PATIENCE = Limits(longest_ms=3_000.0, p99_ms=1_000.0)
"""Several times what a run by hand allows: machines that run tests are slow and shared."""


def test_honest_clients_beside_the_fuzzer(tmp_path: Path) -> None:
    said: list[str] = []
    compiled = IS_COMPILED
    plan = Plan(minutes=0.5, seed=34, rate=80, out=tmp_path / "fuzz", compiled=compiled, limits=PATIENCE)
    assert run(plan, said.append) == [], "\n".join(said)
