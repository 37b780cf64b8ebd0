from __future__ import annotations

import inspect
import warnings
from typing import Any

import pytest

from gateway.client import aio, process
from gateway.client.blocking import admin as blocking
from gateway.client.blocking.admin import AdminClient
from gateway.client.errors import ClientClosed, ConnectError, UsedAfterFork

PARTS = ("topics", "groups", "offsets", "messages", "cluster")


def public(kind: Any) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(member)
        for name, member in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


@pytest.mark.parametrize("part", PARTS)
def test_both_faces_have_the_same_methods_with_the_same_parameters(part: str) -> None:
    one, other = AdminClient(namesrv="a:1"), aio.AdminClient(namesrv="a:1")
    ours, theirs = public(type(getattr(one, part))), public(type(getattr(other, part)))
    assert ours.keys() == theirs.keys()
    for name, signature in ours.items():
        assert signature.parameters.keys() == theirs[name].parameters.keys(), name
        assert [each.default for each in signature.parameters.values()] == [
            each.default for each in theirs[name].parameters.values()
        ], name


def test_start_and_close_may_be_repeated_and_everything_else_needs_a_start() -> None:
    admin = AdminClient(namesrv="127.0.0.1:1")
    with pytest.raises(ClientClosed, match="start"):
        admin.topics.list()
    with admin:
        admin.start()
        with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1"):
            admin.topics.list()
    admin.close()
    with pytest.raises(ClientClosed):
        admin.topics.list()


def test_a_forked_child_is_told_to_make_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with AdminClient(namesrv="127.0.0.1:1") as admin, monkeypatch.context() as forked:
        forked.setattr(process, "number", -1)
        with pytest.raises(UsedAfterFork):
            admin.topics.list()
        with pytest.raises(UsedAfterFork):
            admin.close()


def test_point_16_a_client_that_is_forgotten_warns() -> None:
    admin = AdminClient(namesrv="127.0.0.1:1")
    admin.start()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        admin.__del__()
    assert [warning.category for warning in caught] == [ResourceWarning]
    admin.close()


def test_the_parts_are_the_ones_of_the_core() -> None:
    assert {name for name in PARTS if hasattr(blocking, f"Blocking{name.capitalize()}")} == set(PARTS)
