"""Tests of what all clients have in common: closed is closed, a fork gets none, one that is forgotten is told of."""

from __future__ import annotations

import pickle
import warnings

import pytest

from gateway.client import process
from gateway.client.connect import lifetime
from gateway.client.connect.lifetime import Lifetime
from gateway.client.errors import ClientClosed, UsedAfterFork


class Held(Lifetime):
    """Something that a close would end."""

    def __init__(self, let_go: list[str]) -> None:
        super().__init__("a client")
        self.let_go = let_go

    def start(self) -> None:
        self._watch()

    def _let_go(self) -> None:
        self.let_go.append("let go")


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the warnings; an exception, as ``filterwarnings = error`` makes, would be lost in a destructor."""
    told: list[str] = []
    monkeypatch.setattr(warnings, "warn", lambda text, category, **_: told.append(f"{category.__name__}: {text}"))
    return told


TEXT = "ResourceWarning: a client was not closed: use it in a with block, or call close()"


def test_what_was_closed_cannot_be_used() -> None:
    client = Held([])
    client._check_usable()
    client.abandon()
    with pytest.raises(ClientClosed, match="a client was closed"):
        client._check_usable()


def test_point_16_garbage_that_was_not_closed_is_told_of_and_let_go(warned: list[str]) -> None:
    let_go: list[str] = []
    client = Held(let_go)
    client.start()
    del client
    assert (warned, let_go) == ([TEXT], ["let go"])


def test_point_16_what_is_left_when_the_program_ends_is_told_of_once_and_not_touched(warned: list[str]) -> None:
    let_go: list[str] = []
    client = Held(let_go)
    client.start()
    lifetime._miss_all()
    lifetime._miss_all()
    del client
    assert (warned, let_go) == ([TEXT], [])


def test_nothing_is_told_of_what_was_closed_or_never_started_or_belongs_to_another_client(warned: list[str]) -> None:
    closed, idle, part = Held([]), Held([]), Held([])
    closed.start()
    closed.abandon()
    part.start()
    part.unwatch()
    lifetime._miss_all()
    del closed, idle, part
    Lifetime.__new__(Lifetime)  # its making failed
    assert warned == []


def test_a_forked_child_can_neither_use_nor_leak_it(monkeypatch: pytest.MonkeyPatch, warned: list[str]) -> None:
    client = Held([])
    client.start()
    with monkeypatch.context() as forked:
        forked.setattr(process, "number", -1)
        with pytest.raises(UsedAfterFork, match="a client"):
            client._check_usable()
        lifetime._miss_all()
        client.__del__()
    assert warned == []
    client.abandon()


def test_it_cannot_be_passed_to_another_process() -> None:
    with pytest.raises(TypeError, match=r"a client cannot be pickled: .* in the target function"):
        pickle.dumps(Held([]))
