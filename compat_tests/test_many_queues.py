"""Many queues with few open files for some seconds; `python -m compat_tests.many_queues` goes on for ten minutes."""

from __future__ import annotations

import pytest

from compat_tests.many_queues import main


@pytest.fixture(scope="session", autouse=True)
def engine() -> None:
    """Replace the fixture of the other tests: no engine is needed."""


def test_no_pull_is_answered_with_messages_of_another_queue(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--minutes", "0.1", "--queues", "600"]) == 0, capfd.readouterr()
