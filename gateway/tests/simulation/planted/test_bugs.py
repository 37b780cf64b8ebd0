"""Some planted bugs are found within a few seeds; ``python -m gateway.tests.simulation.planted`` looks for all."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from gateway.cli.version import is_compiled
from gateway.tests.simulation.planted.__main__ import first_seed
from gateway.tests.simulation.planted.bugs import BUGS

pytestmark = pytest.mark.skipif(is_compiled(), reason="a compiled method cannot be replaced by a wrong one")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a slave reports what it received", "acknowledged with 0 copies of 1"),
        ("a report counts for all that was sent", "acknowledged with 0 copies of 1"),
        ("two reports of one slave are two copies", "acknowledged with 1 copies of 2"),
        ("a set that is too small confirms", "acknowledged with 0 copies of 1"),
        ("a member without everything joins", "acknowledged with 0 copies of 1"),
    ],
)
def test_a_planted_bug_is_found(name: str, said: str) -> None:
    found = first_seed(BUGS[name], within=40)
    assert found is not None
    assert said in found[1]
