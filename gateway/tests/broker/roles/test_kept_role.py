"""The role that an operator ordered: how a request changes it, and which role holds after a restart."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from twisted.python.failure import Failure

from gateway.broker.kept_role import FILE_NAME, RoleAndId, keep_role, ordered_role
from gateway.cli.serving.ordered_role import with_ordered_role
from gateway.errors import SettingsError
from gateway.settings.files.load import Loaded
from gateway.settings.replication import BrokerRole
from gateway.settings.transaction import TransactionStateStore
from gateway.tests.broker.roles.test_life import MASTER, SLAVE, Living
from gateway.tests.broker.whole_broker import WholeBroker, small_settings
from wire.bodies.tools.failover import ReplicaState
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.admin import ChangeRoleRequest
from wire.message.record import build_blank

CONFIGURED = {"broker_role": MASTER, "broker_id": 0}
REPLICATED = {"ha_listen_port": 10912, "flush_disk_type": "SYNC_FLUSH"}


def ask(living: Living, code: int, header: Any = None) -> RemotingCommand:
    client = living.connect()
    answers = client.ask_all(code, header)
    living.machine.turn()
    (answer,) = answers + client.received()
    return answer


def change(living: Living, role: str, broker_id: int, **more: Any) -> RemotingCommand:
    header = ChangeRoleRequest(broker_name=more.pop("name", "broker-a"), broker_role=role, broker_id=broker_id, **more)
    return ask(living, RequestCode.GATEWAY_CHANGE_ROLE, header)


def state(living: Living) -> ReplicaState:
    return ReplicaState.parse(ask(living, RequestCode.GATEWAY_REPLICA_STATE).body)


def test_a_request_changes_the_role_and_keeps_it(tmp_path: Path) -> None:
    living = Living(tmp_path)
    living.send(b"one")
    end = state(living).log_end
    taken = change(living, "SLAVE", 2, log_end=end)
    assert taken.code == ResponseCode.SUCCESS
    living.machine.turn()
    found = state(living)
    told = ReplicaState.parse(taken.body)
    assert (told.process, told.changes) == (living.life.process, 0)
    assert found.process == told.process, "the process is the same"
    assert (found.role, found.broker_id, found.changes, found.log_end) == ("SLAVE", 2, 1, end)
    assert ordered_role(small_settings(tmp_path)) == RoleAndId(SLAVE, 2)
    assert change(living, "SYNC_MASTER", 0).code == ResponseCode.SUCCESS
    living.machine.turn()
    assert state(living).role == "SYNC_MASTER"
    assert ordered_role(small_settings(tmp_path)) == RoleAndId(BrokerRole.SYNC_MASTER, 0)
    living.run(living.life.stop())


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"name": "broker-b"}, "this broker is broker-a, not broker-b"),
        ({"role": "KING"}, "brokerRole is one of ASYNC_MASTER, SYNC_MASTER, SLAVE"),
        ({"broker_id": 0}, "a master has id 0, each slave another above 0"),
        ({"log_end": 1}, "the log ends at 0 and not at 1"),
    ],
)
def test_a_wrong_change_is_refused_and_changes_nothing(tmp_path: Path, wrong: dict[str, Any], text: str) -> None:
    living = Living(tmp_path)
    answer = change(living, **{"role": "SLAVE", "broker_id": 1, **wrong})
    assert (answer.code != ResponseCode.SUCCESS, answer.remark) == (True, text)
    living.machine.turn()
    assert (living.role, living.life.changes) == ((MASTER, 0), 0)
    assert not (tmp_path / FILE_NAME).exists()
    living.run(living.life.stop())


def test_a_master_of_a_group_is_changed_by_its_controller(tmp_path: Path) -> None:
    living = Living(tmp_path)
    living.made[-1]._parts.life = None
    answer = change(living, "SLAVE", 1)
    assert answer.code == ResponseCode.NO_PERMISSION
    assert "mqadmin electMaster" in str(answer.remark)
    living.run(living.life.stop())


def test_a_change_whose_file_cannot_be_written_is_ended_in_the_role_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``rocketmq-gateway failover`` waits until ``changes`` rises, and then makes the old master the master again."""
    living = Living(tmp_path, broker_role=SLAVE, broker_id=1)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gateway.broker.requests.rare.failover.keep_role", full)
    assert change(living, "SYNC_MASTER", 0).code == ResponseCode.SUCCESS
    living.machine.turn()
    found = state(living)
    assert (found.role, found.broker_id, found.changes, found.is_changing) == ("SLAVE", 1, 1, False)
    living.run(living.life.stop())


def test_a_slave_that_could_not_start_as_a_master_is_not_promoted(tmp_path: Path) -> None:
    """Its master claimed their common database of transactions after the start of the slave."""
    database = TransactionStateStore.DATABASE
    shared: dict[str, Any] = {"transaction_state_store": database, "transaction_database": f"sqlite:{tmp_path}/db"}
    living = Living(tmp_path / "slave", broker_role=SLAVE, broker_id=1, **shared)
    master = WholeBroker(tmp_path / "master", **shared)
    answer = change(living, "SYNC_MASTER", 0)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "give each broker a database or a schema of its own" in str(answer.remark)
    living.machine.turn()
    assert (living.role, living.life.changes) == ((SLAVE, 1), 0)
    master.stop()
    living.run(living.life.stop())


def test_a_filler_that_ends_the_log_of_a_master_is_no_part_of_what_its_slave_has_to_have(tmp_path: Path) -> None:
    """A kill leaves one whose record is lost; slaves store a filler with the record that follows."""
    before = Living(tmp_path / "before", **REPLICATED)
    before.send(b"one")
    end = state(before).log_end
    shutil.copytree(tmp_path / "before", tmp_path / "killed")
    [file] = (tmp_path / "killed" / "commitlog").iterdir()
    with file.open("r+b") as stream:
        stream.seek(end)
        stream.write(build_blank(file.stat().st_size - end))
    living = Living(tmp_path / "killed", **REPLICATED)
    (broker,) = living.made
    assert broker.durable_end == file.stat().st_size > end
    assert state(living).log_end == end
    assert change(living, "SLAVE", 1).code == ResponseCode.SUCCESS
    living.machine.turn()
    assert (state(living).log_end, state(living).role) == (end, "SLAVE")
    assert living.made[-1].durable_end == end, "the new master may have a record there"
    assert change(living, "SYNC_MASTER", 0, log_end=end).code == ResponseCode.SUCCESS
    living.machine.turn()
    living.run(living.life.stop())
    again = WholeBroker(tmp_path / "killed")
    assert [message.body for message in again.messages("orders")] == [b"one"]


def test_tables_of_a_master_that_is_not_reached_end_a_promotion(tmp_path: Path) -> None:
    living = Living(tmp_path, broker_role=SLAVE, broker_id=1)
    client = living.connect()
    header = ChangeRoleRequest(
        broker_name="broker-a", broker_role="ASYNC_MASTER", broker_id=0, tables_of="192.0.2.1:10911"
    )
    answers = client.ask_all(RequestCode.GATEWAY_CHANGE_ROLE, header)
    for _ in range(30):
        while living.machine.tcpClients:
            factory: Any = living.machine.tcpClients.pop()[2]
            refused: Any = Failure(ConnectionRefusedError(111, "refused"))  # type: ignore[no-untyped-call]
            factory.clientConnectionFailed(None, refused)
        living.machine.advance(1)
    living.machine.turn()
    (answer,) = answers + client.received()
    assert str(answer.remark).startswith("the tables were not copied: topics: ")
    assert living.role == (SLAVE, 1)
    living.run(living.life.stop())


def test_an_order_holds_as_long_as_the_configuration_stays(tmp_path: Path) -> None:
    settings = small_settings(tmp_path, **CONFIGURED)
    keep_role(settings, SLAVE, 3)
    loaded = with_ordered_role(Loaded(settings, {}, (), ()))
    assert (loaded.settings.broker_role, loaded.settings.broker_id) == (SLAVE, 3)
    assert loaded.sources["brokerRole"] == str(tmp_path / FILE_NAME)
    (notice,) = loaded.notices
    assert notice.startswith("the broker starts with brokerRole=SLAVE brokerId=3, which was ordered (")
    assert notice.endswith("and not with brokerRole=ASYNC_MASTER brokerId=0")
    keep_role(loaded.settings, MASTER, 0)
    assert ordered_role(settings) is None


def test_a_configuration_that_says_what_was_ordered_ends_the_order(tmp_path: Path) -> None:
    settings = small_settings(tmp_path, **CONFIGURED)
    keep_role(settings, SLAVE, 3)
    assert ordered_role(replace(settings, broker_role=SLAVE, broker_id=3)) is None
    assert not (tmp_path / FILE_NAME).exists()
    assert ordered_role(settings) is None


def test_a_configuration_that_contradicts_the_order_is_refused(tmp_path: Path) -> None:
    settings = small_settings(tmp_path, broker_role=SLAVE, broker_id=1)
    keep_role(settings, MASTER, 0)
    with pytest.raises(SettingsError, match=r"brokerRole=SLAVE brokerId=2.*brokerRole=ASYNC_MASTER brokerId=0 was"):
        ordered_role(replace(settings, broker_id=2))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("{")
    with pytest.raises(SettingsError, match="gateway-role cannot be read"):
        ordered_role(small_settings(tmp_path))
