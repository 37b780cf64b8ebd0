"""A minute of the fuzzer: bad requests beside honest clients, which are served as promised (no Docker)."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.tests.fuzz.run import ACCELERATED, ROOT, Plan, run
from gateway.tests.fuzz.verdict import Limits

SEED = 34
PATIENCE = Limits(longest_ms=2_000.0, p99_ms=500.0)
"""Twice what a run by hand allows: machines that run tests are slow and shared."""


def is_built() -> bool:
    """Whether compiled packages are there that are newer than every source."""
    built = ACCELERATED / ".built"
    sources = (path for package in ("wire", "gateway") for path in (ROOT / package).rglob("*.py"))
    return built.exists() and not any(
        path.stat().st_mtime > built.stat().st_mtime for path in sources if "tests" not in path.parts
    )


@pytest.mark.alone
@pytest.mark.parametrize("compiled", [False, True] if is_built() else [False])
def test_honest_clients_beside_the_fuzzer(tmp_path: Path, compiled: bool) -> None:
    said: list[str] = []
    plan = Plan(minutes=0.5, seed=SEED, rate=100, out=tmp_path / "fuzz", compiled=compiled, limits=PATIENCE)
    assert run(plan, said.append) == [], "\n".join(said)
