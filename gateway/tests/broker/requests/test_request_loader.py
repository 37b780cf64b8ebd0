"""Classes of requests are found by the folder of their module."""

from __future__ import annotations

import ast
from errno import EIO
from pathlib import Path

import pytest

import gateway.broker.requests.rare
from gateway.broker import request_loader
from gateway.broker.desk import Desk
from gateway.broker.request_loader import AT_ONCE
from gateway.metadata.saved.json_file import JsonFile
from gateway.remoting.dispatch import Dispatch, RequestGroup
from gateway.tests.broker.whole_broker import WholeBroker
from wire.codes import RequestCode, ResponseCode

FOLDER = Path(gateway.broker.requests.__file__).parent
RARE = list(request_loader._modules(gateway.broker.requests.rare))


def classes_of_requests(path: Path) -> list[str]:
    """Name the classes of a module that register requests."""
    classes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
    return [
        node.name
        for node in classes
        if {"Requests", "DeskRequests"} & {base.id for base in node.bases if isinstance(base, ast.Name)}
        or any(isinstance(part, ast.FunctionDef) and part.name == "register" for part in node.body)
    ]


def test_every_class_is_made_at_start_unless_it_is_rare() -> None:
    paths = [path for path in FOLDER.rglob("*.py") if "rare" not in path.relative_to(FOLDER).parts]
    assert sorted(kind.__name__ for kind in AT_ONCE) == sorted(
        name for path in paths for name in classes_of_requests(path)
    )


def test_a_rare_module_has_one_class() -> None:
    for path in (FOLDER / "rare").rglob("[!_]*.py"):
        assert len(classes_of_requests(path)) == 1, path.name


@pytest.mark.parametrize("broken", RARE)
def test_a_rare_class_that_cannot_be_made_costs_its_own_requests_only(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Classes are made one after the other until one answers the code that came; one that fails is passed over."""
    load = request_loader._load

    def load_unless_broken(desk: Desk, name: str) -> RequestGroup:
        if name == broken:
            raise ValueError("it cannot be made")
        return load(desk, name)

    monkeypatch.setattr(request_loader, "_load", load_unless_broken)
    broker = WholeBroker(tmp_path)
    own, all_rare = Dispatch(), Dispatch()
    load(broker.parts, broken).register(own)
    for name in RARE:
        load(broker.parts, name).register(all_rare)
    peer = broker.connect()
    for entry in own.entries():
        assert "it cannot be made" in (broker.ask(peer, entry.code).remark or "")
    answered = broker.conversation.dispatch._entries.keys()
    assert {entry.code for entry in all_rare.entries()} - answered == {entry.code for entry in own.entries()}
    broker.stop()


def test_a_damaged_store_id_keeps_no_other_rare_request_from_being_loaded(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "storeId.json").write_text("{")
    broker = WholeBroker(tmp_path)
    peer = broker.connect()
    answer = broker.ask(peer, RequestCode.GET_BROKER_RUNTIME_INFO)
    assert "storeId.json" in (answer.remark or "")
    assert broker.ask(peer, RequestCode.POP_ROLLBACK).code == ResponseCode.SUCCESS
    broker.stop()


def test_a_store_id_that_cannot_be_written_is_refused_with_the_reason_and_made_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(self: JsonFile, content: bytes, sequence: int = 0) -> None:
        raise OSError(EIO, "Input/output error")

    broker = WholeBroker(tmp_path)
    peer = broker.connect()
    with monkeypatch.context() as patch:
        patch.setattr(JsonFile, "write", refuse)
        refused = broker.ask(peer, RequestCode.GET_BROKER_RUNTIME_INFO)
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert "storeId.json: Input/output error" in (refused.remark or "")
    assert not [record for record in caplog.records if record.exc_info]
    assert broker.ask(peer, RequestCode.GET_BROKER_RUNTIME_INFO).code == ResponseCode.SUCCESS
    broker.stop()
