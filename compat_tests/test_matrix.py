"""The matrix: its page is what its stored results make, and a cell turns red when what it asks does not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from compat_tests.access.stands import Stand
from compat_tests.java_client import JavaClient
from compat_tests.matrix import command, results
from compat_tests.matrix.clients import CLIENTS
from compat_tests.matrix.doors import CONTROL, DOORS, GATEWAY
from compat_tests.matrix.features import FEATURES, Feature
from compat_tests.matrix.page import KNOWN, PAGE, page
from compat_tests.matrix.results import Result, Results
from compat_tests.matrix.stage import Stage
from compat_tests.peers import GatewayProcess
from compat_tests.scenarios import Scene, receive_all, send_all
from gateway.client import AdminClient

JAVA = CLIENTS["java-5.5.0"]


def result(peer: str, *, passed: bool, reason: str = "") -> Result:
    return Result(JAVA.name, "tags", peer, passed, "2026-01-01", reason)


def test_the_page_is_what_the_stored_results_make() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(results.load()), "run: python -m compat_tests.matrix --page"


def test_stored_results_are_of_cells_that_exist() -> None:
    for each in results.load().all():
        assert each.client in CLIENTS
        assert each.feature in FEATURES
        assert CLIENTS[each.client].can(each.feature, DOORS[each.peer]), f"no such cell: {each}"


def test_what_a_client_lacks_is_a_feature() -> None:
    for client in CLIENTS.values():
        assert set(client.lacks) <= set(FEATURES), client.name


def test_results_are_stored_and_replaced_by_newer_ones(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    assert results.load(path).all() == []
    older = Results([result(GATEWAY, passed=False, reason="lost"), result(CONTROL, passed=True)])
    older.with_one(result(GATEWAY, passed=True)).save(path)
    assert results.load(path).all() == [result(GATEWAY, passed=True), result(CONTROL, passed=True)]


def test_only_what_the_control_passes_is_asked_of_the_gateway() -> None:
    failed = result(GATEWAY, passed=False, reason="lost")
    assert command.is_worse(Results([failed, result(CONTROL, passed=True)]), failed)
    assert not command.is_worse(Results([failed, result(CONTROL, passed=False)]), failed)
    assert not command.is_worse(Results([failed]), failed)


def test_the_page_marks_and_names_failures() -> None:
    text = page(Results([result(GATEWAY, passed=False, reason="3 messages missing"), result(CONTROL, passed=True)]))
    assert "✘ ✔" in text
    assert "Java 5.5.0, tags, the gateway: `3 messages missing`" in text


def test_a_failure_of_the_control_is_told_with_its_cause_and_one_of_the_gateway_alone_as_it_came() -> None:
    node = [Result("node", "auto-topic", peer, False, "2026-01-01", "timed out") for peer in (GATEWAY, CONTROL)]
    cause = KNOWN["node", "auto-topic"]
    line = "- Node ali-ons 3.12.0, topics made by sending to them,"
    assert f"{line} both servers: {cause}." in page(Results(node))
    assert f"{line} Apache RocketMQ: {cause}." in page(Results(node[1:]))
    assert f"{line} the gateway: `timed out`" in page(Results(node[:1]))


def test_what_was_tried_with_tls_or_keys_has_a_table_of_its_own_in_which_each_door_has_its_own_control() -> None:
    doors = {"gateway-keys-1.0": True, "rocketmq-4.9.8-keys-1.0": True, "gateway-keys-2.0": False}
    results = Results([Result("node", "push", door, passed, "2026-01-01", "lost") for door, passed in doors.items()])
    text = page(results)
    assert f"| Node ali-ons 3.12.0: {FEATURES['push'].title} | – | ✔ ✔ | – | ✘ ? | – |\n" in text
    assert f"- Node ali-ons 3.12.0, {FEATURES['push'].title}, keys of 5.3 and later, the gateway: `lost`\n" in text
    failed = results.all()[1]
    assert not command.is_worse(results, failed)
    assert command.is_worse(results.with_one(replace(failed, peer=DOORS[failed.peer].control, passed=True)), failed)


def test_no_stored_failure_is_without_a_cause() -> None:
    failed = {(each.client, each.feature) for each in results.load().all() if not each.passed}
    assert failed <= set(KNOWN)


@pytest.fixture(scope="module")
def stage(gateway: Scene) -> Iterator[Stage]:
    peer = gateway.peer
    assert isinstance(peer, GatewayProcess)
    stand = Stand(peer)
    with AdminClient(stand.operator()) as admin:
        yield Stage(peer, gateway.client, 30, 10, stand=stand, admin=admin, address=peer.nameserver)


@pytest.mark.parametrize(
    ("version", "feature"), [("5.5.0", "tags"), ("4.9.8", "delay-level"), ("5.5.0", "delay-level")]
)
def test_a_cell_holds(stage: Stage, clients: Callable[[str], JavaClient], version: str, feature: str) -> None:
    staged = replace(stage, client=clients(version))
    assert command.reason_of(staged, CLIENTS[f"java-{version}"], FEATURES[feature]) == ""


def test_a_cell_that_does_not_hold_says_why(stage: Stage) -> None:
    def loses(stage: Stage) -> None:
        topic = stage.topic()
        send_all(stage, topic)
        receive_all(stage, topic, count=stage.messages + 1, timeout_s=3)

    assert "1 messages missing" in command.reason_of(stage, JAVA, Feature("loses", "loses", loses))
