"""A change by hand is judged beside what the machine itself took."""

from __future__ import annotations

import pytest

from gateway.tests.fuzz.accounts.changing import fault_of_wait


@pytest.mark.parametrize(
    ("waited_s", "machine_ms", "is_late"), [(5.0, 0, False), (5.1, 0, True), (5.8, 1_250, False), (6.3, 1_250, True)]
)
def test_a_wait_is_too_long_if_it_is_longer_than_patience_and_machine(
    waited_s: float, machine_ms: int, is_late: bool
) -> None:
    fault = fault_of_wait(waited_s, 5.0, machine_ms)
    assert (fault is not None) is is_late
    assert fault is None or fault == f"not used after 5 s, the machine itself {machine_ms} ms"
