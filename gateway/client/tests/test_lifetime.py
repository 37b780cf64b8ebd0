"""Tests of what all clients have in common: closed is closed, a fork gets none, and a leak is told."""

from __future__ import annotations

import warnings

import pytest

from gateway.client import process
from gateway.client.errors import ClientClosed, UsedAfterFork
from gateway.client.lifetime import Lifetime


class Held(Lifetime):
    """Something that a close would end."""

    def __init__(self) -> None:
        super().__init__("a client")
        self.let_go = 0

    @property
    def _holds_something(self) -> bool:
        return True

    def _let_go(self) -> None:
        self.let_go += 1


def leaked(client: Lifetime) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        client.__del__()
    return [str(warning.message) for warning in caught]


def test_what_was_closed_cannot_be_used() -> None:
    client = Held()
    client._check_usable()
    client.abandon()
    with pytest.raises(ClientClosed, match="a client was closed"):
        client._check_usable()


def test_what_was_not_closed_is_told_and_let_go_unless_there_is_nothing_to_close() -> None:
    client = Held()
    assert leaked(client) == ["a client was not closed"]
    assert client.let_go == 1
    client.abandon()
    assert leaked(client) == []
    assert leaked(Lifetime("idle")) == []
    assert leaked(Lifetime.__new__(Lifetime)) == [], "its making failed"


def test_a_forked_child_can_neither_use_nor_leak_it(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Held()
    with monkeypatch.context() as forked:
        forked.setattr(process, "number", -1)
        with pytest.raises(UsedAfterFork, match="a client"):
            client._check_usable()
        assert leaked(client) == []
    client.abandon()
