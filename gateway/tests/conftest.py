"""Clean-up of what a test leaves open, when the test ends: a process may have a thousand files open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.tests.left_open import given_back, stores_noted


@pytest.fixture(scope="session", autouse=True)
def noted_stores() -> Iterator[None]:
    """Note the stores that are opened, in all tests."""
    with stores_noted():
        yield


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """After the test."""
    with given_back():
        yield
