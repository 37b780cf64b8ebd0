"""Brokers of one command: who is called what, keeps its files where and listens where."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.cli.serving.members import BrokerMember, check_directory, directory, members
from gateway.errors import SettingsError
from gateway.settings import Address
from gateway.settings.files.load import Loaded, Role, load_settings


def loaded(*assignments: str) -> Loaded:
    return load_settings(Role.SERVE, assignments=["brokerName=mq", "storePathRootDir=/data", *assignments])


def settings_of(member: BrokerMember, *, port: int | None = None) -> Loaded:
    """Return the settings that the broker's process reads from its command line."""
    command, supervised, *rest = member.arguments([Address("127.0.0.1", 9876), Address("other", 1)], port)
    assert (command, supervised, set(rest[::2])) == ("broker", "--supervised", {"--set"})
    return load_settings(Role.BROKER, assignments=rest[1::2])


def test_each_has_its_name_its_directory_and_its_ports() -> None:
    found = [settings_of(member).settings for member in members(loaded(), 3)]
    assert [one.broker_name for one in found] == ["mq-0", "mq-1", "mq-2"]
    assert [one.store_path_root_dir for one in found] == [Path(f"/data/broker-{index}") for index in range(3)]
    assert [one.listen_port for one in found] == [10_911, 10_921, 10_931]
    assert [one.metrics_prom_exporter_port for one in found] == [5_557, 5_567, 5_577]
    assert {one.name_server_addresses for one in found} == {(("127.0.0.1", 9876), ("other", 1))}


def test_whatever_else_was_set_holds_for_all() -> None:
    wished = ("flushDiskType=ASYNC_FLUSH", "brokerClusterName=c", "bindAddress=0.0.0.0", "traceOn=false")
    for member in members(loaded(*wished), 2):
        settings = settings_of(member).settings
        assert settings.flush_disk_type == "ASYNC_FLUSH"
        assert (settings.broker_cluster_name, settings.bind_address, settings.trace_on) == ("c", "0.0.0.0", False)


def test_a_secret_is_no_argument_that_everybody_can_read() -> None:
    files = ("tls.server.certPath=/c", "tls.server.keyPath=/k", "tls.server.keyPassword=geheim")
    for member in members(loaded(*files), 2):
        assert not [text for text in member.arguments([], None) if "geheim" in text]
        assert member.secrets == {"ROCKETMQ_GATEWAY_TLS_SERVER_KEY_PASSWORD": "geheim"}
        assert settings_of(member).settings.tls_key == "/k"


def test_each_broker_and_the_name_server_write_an_audit_file_of_their_own() -> None:
    """Several processes that rename the same file when it is full would lose its lines."""
    keys = '{"accessKey": "inner", "secretKey": "inner-secret"}'
    guarded = ("aclEnable=true", "gateway.aclFile=/a.yml", f"innerClientAuthenticationCredentials={keys}")
    for wished, expected in (
        ((), ["/data/broker-0/audit.jsonl", "/data/broker-1/audit.jsonl"]),
        (("gateway.auditFile=/log/audit.jsonl",), ["/log/audit-0.jsonl", "/log/audit-1.jsonl"]),
        (("gateway.auditFile=/log/audit",), ["/log/audit-0", "/log/audit-1"]),
    ):
        found = members(loaded(*guarded, *wished), 2)
        assert [str(settings_of(member).settings.audit_log) for member in found] == expected


def test_free_ports_stay_free_until_a_broker_has_one() -> None:
    _, second = members(loaded("listenPort=0"), 2)
    assert settings_of(second).settings.listen_port == 0
    assert settings_of(second, port=4711).settings.listen_port == 4711


@pytest.mark.parametrize(
    ("wished", "expected"),
    [
        ("gateway.advertise=auto", [(None, None), (None, None)]),
        ("gateway.advertise=mq.example.org", [("mq.example.org", None)] * 2),
        ("gateway.advertise=mq.example.org:30911", [("mq.example.org", 30_911), ("mq.example.org", 30_921)]),
        ("brokerIP1=192.0.2.1", [("192.0.2.1", None)] * 2),
    ],
)
def test_advertised_ports_are_as_far_apart_as_the_ports(wished: str, expected: list[tuple[str, int]]) -> None:
    found = [settings_of(member).settings.advertised for member in members(loaded(wished), 2)]
    assert found == expected


@pytest.mark.parametrize(
    ("wished", "reason"),
    [
        ("storePathCommitLog=/elsewhere", r"storePathCommitLog \(--set\): 2 brokers cannot share /elsewhere"),
        ("gateway.transactionDatabase=sqlite:/a.db", "2 brokers cannot share sqlite:/a.db; leave it out"),
        ("listenPort=65530", "listenPort=65530: broker 1 would need port 65540"),
    ],
)
def test_what_cannot_be_shared_is_refused(wished: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        members(loaded(wished), 2)


def test_one_database_of_transactions_may_serve_all() -> None:
    assert len(members(loaded("gateway.transactionDatabase=postgresql://db/t"), 2)) == 2


def put_file(store: Path, data: bytes) -> None:
    (store / "commitlog").mkdir(parents=True)
    (store / "commitlog" / f"{0:020d}").write_bytes(data)


def test_a_new_directory_serves_any_number(tmp_path: Path) -> None:
    for count in (1, 2, 64):
        check_directory(tmp_path, count)
        check_directory(tmp_path / "missing", count)


def test_the_store_of_a_single_broker_is_not_left_aside(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    check_directory(tmp_path, 1)
    with pytest.raises(SettingsError, match=r"the store of a single broker: move what is in it to .*/broker-0"):
        check_directory(tmp_path, 2)


def test_no_broker_of_several_is_left_aside(tmp_path: Path) -> None:
    for index in range(3):
        put_file(directory(tmp_path, index), b"\0\0\1\0record")
    (tmp_path / "broker-notes").mkdir()
    (tmp_path / "broker-7").mkdir()
    check_directory(tmp_path, 3)
    check_directory(tmp_path, 4)
    for count in (1, 2):
        with pytest.raises(SettingsError, match=r"broker-2 holds messages .* start with --brokers 3"):
            check_directory(tmp_path, count)


def test_the_first_of_several_can_go_on_alone_as_the_refusal_says(tmp_path: Path) -> None:
    put_file(directory(tmp_path, 0), b"\0\0\1\0record")
    with pytest.raises(SettingsError, match=rf"broker-0 holds .* move .* to {tmp_path} .* --brokers 2$"):
        check_directory(tmp_path, 1)
    check_directory(tmp_path, 2)
    (directory(tmp_path, 0) / "commitlog").rename(tmp_path / "commitlog")
    check_directory(tmp_path, 1)


def test_only_names_as_they_are_given_to_brokers_are_those_of_brokers(tmp_path: Path) -> None:
    for name in ("broker-01", "broker-²", "broker-x"):
        put_file(tmp_path / name, b"\0\0\1\0record")
    check_directory(tmp_path, 1)


def test_a_broker_that_never_stored_a_message_may_be_left_aside(tmp_path: Path) -> None:
    put_file(directory(tmp_path, 1), bytes(100))
    put_file(directory(tmp_path, 2), b"")
    (directory(tmp_path, 3) / "config").mkdir(parents=True)
    check_directory(tmp_path, 2)
    check_directory(tmp_path, 1)


def test_a_file_of_a_gigabyte_that_was_never_written_may_be_left_aside(tmp_path: Path) -> None:
    put_file(directory(tmp_path, 1), b"")
    with next((directory(tmp_path, 1) / "commitlog").iterdir()).open("r+b") as file:
        file.truncate(1 << 30)
        file.write(bytes(3 << 20))
    check_directory(tmp_path, 1)


def test_messages_behind_a_begin_that_was_zeroed_are_not_left_aside(tmp_path: Path) -> None:
    put_file(directory(tmp_path, 1), bytes((3 << 20) + 17) + b"record" + bytes(5_000))
    with pytest.raises(SettingsError, match="broker-1 holds messages"):
        check_directory(tmp_path, 1)


def test_messages_behind_a_hole_are_not_left_aside(tmp_path: Path) -> None:
    put_file(directory(tmp_path, 1), b"")
    with next((directory(tmp_path, 1) / "commitlog").iterdir()).open("r+b") as file:
        file.seek(1 << 30)
        file.write(b"record")
    with pytest.raises(SettingsError, match="broker-1 holds messages"):
        check_directory(tmp_path, 1)


def test_what_cannot_be_read_is_not_left_aside(tmp_path: Path) -> None:
    (directory(tmp_path, 1) / "commitlog" / "unreadable").mkdir(parents=True)
    with pytest.raises(SettingsError, match="broker-1 holds messages"):
        check_directory(tmp_path, 1)
