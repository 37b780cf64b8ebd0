"""Classes of requests are found by the folder of their module."""

from __future__ import annotations

import ast
from pathlib import Path

import gateway.broker.requests
from gateway.broker.request_loader import AT_ONCE
from gateway.tests.broker.whole_broker import WholeBroker
from wire.codes import RequestCode, ResponseCode

FOLDER = Path(gateway.broker.requests.__file__).parent


def classes_of_requests(path: Path) -> list[str]:
    """Name the classes of a module that register requests."""
    classes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
    return [
        node.name
        for node in classes
        if any(isinstance(part, ast.FunctionDef) and part.name == "register" for part in node.body)
    ]


def test_every_class_is_made_at_start_unless_it_is_rare() -> None:
    paths = [path for path in FOLDER.rglob("*.py") if path.parent.name != "rare"]
    assert sorted(kind.__name__ for kind in AT_ONCE) == sorted(
        name for path in paths for name in classes_of_requests(path)
    )


def test_a_rare_module_has_one_class() -> None:
    for path in (FOLDER / "rare").glob("[!_]*.py"):
        assert len(classes_of_requests(path)) == 1, path.name


def test_a_damaged_store_id_keeps_no_other_rare_request_from_being_loaded(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "storeId.json").write_text("{")
    broker = WholeBroker(tmp_path)
    peer = broker.connect()
    answer = broker.ask(peer, RequestCode.GET_BROKER_RUNTIME_INFO)
    assert "storeId.json" in (answer.remark or "")
    assert broker.ask(peer, RequestCode.POP_ROLLBACK).code == ResponseCode.SUCCESS
    broker.stop()
