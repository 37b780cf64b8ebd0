"""Values come from five places in order, remember theirs, and are refused with the place named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.errors import SettingsError
from gateway.settings import Settings
from gateway.settings.declare import declarations
from gateway.settings.files.access_keys import STOCK_CLASSES
from gateway.settings.files.apache_keys import REFUSED, REPLICATION, apache_keys
from gateway.settings.files.load import DEFAULT, Loaded, Role, load_settings
from gateway.settings.files.written import WrittenSetting
from gateway.settings.store import FlushDiskType


def with_file(directory: Path, text: str, role: Role = Role.SERVE) -> Loaded:
    path = directory / "broker.conf"
    path.write_text(text)
    return load_settings(role, config_file=path)


def with_set(*assignments: str) -> Loaded:
    return load_settings(Role.SERVE, assignments=assignments)


def test_without_any_source_everything_is_a_default() -> None:
    loaded = load_settings(Role.SERVE)
    assert loaded.sources == {}
    assert {source for _, _, source in loaded.rows()} == {DEFAULT}
    assert (loaded.kept, loaded.notices) == ((), ())


def test_each_source_wins_over_those_before_it(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("brokerName=file\nregionId=file\nlistenPort=1\nfileReservedTime=1\n")
    loaded = load_settings(
        Role.SERVE,
        config_file=path,
        environment={
            "ROCKETMQ_GATEWAY_REGION_ID": "environment",
            "ROCKETMQ_GATEWAY_LISTEN_PORT": "2",
            "ROCKETMQ_GATEWAY_FILE_RESERVED_TIME": "2",
        },
        assignments=["listenPort=3", "fileReservedTime=3"],
        options=[WrittenSetting("listenPort", "4", "--port")],
    )
    settings = loaded.settings
    assert (settings.broker_name, settings.region_id) == ("file", "environment")
    assert (settings.file_reserved_time_hours, settings.listen_port) == (3, 4)
    assert loaded.sources == {
        "brokerName": f"{path}:1",
        "regionId": "environment ROCKETMQ_GATEWAY_REGION_ID",
        "fileReservedTime": "--set",
        "listenPort": "--port",
    }


def test_a_typical_configuration_of_apache_is_accepted_silently(tmp_path: Path) -> None:
    loaded = with_file(
        tmp_path,
        "brokerClusterName = DefaultCluster\nbrokerName = broker-a\nbrokerId = 0\ndeleteWhen = 04\n"
        "fileReservedTime = 48\nbrokerRole = ASYNC_MASTER\nflushDiskType = ASYNC_FLUSH\n",
    )
    assert loaded.notices == ()
    assert loaded.settings.flush_disk_type is FlushDiskType.ASYNC_FLUSH
    assert loaded.settings.file_reserved_time_hours == 48


def test_a_key_without_effect_is_kept_and_named_once(tmp_path: Path) -> None:
    loaded = with_file(tmp_path, "transferMsgByHeap=false\n")
    assert [entry[:2] for entry in loaded.kept] == [("transferMsgByHeap", "false")]
    expected = f"transferMsgByHeap ({tmp_path}/broker.conf:1): known to Apache RocketMQ, without effect here"
    assert loaded.notices == (expected,)


def test_point_19_keys_without_effect_that_repeat_apaches_defaults_are_named_in_one_line(tmp_path: Path) -> None:
    loaded = with_file(tmp_path, "totalReplicas=1\naclEnable=false\nstoreType=default\noffsetCheckInSlave= false\n")
    path = tmp_path / "broker.conf"
    (notice,) = loaded.notices
    assert notice == (
        f"totalReplicas ({path}:1), offsetCheckInSlave ({path}:4): known to Apache RocketMQ, without effect here "
        "(each has Apache's default)"
    )
    assert len(loaded.kept) == 3


def test_point_19_every_key_of_apaches_without_a_setting_is_named() -> None:
    known = declarations(Settings)
    keys = [key for key in apache_keys().values() if key.key not in {*known, *STOCK_CLASSES}]
    for values in ([key.default for key in keys], ["x"] * len(keys)):
        told = [
            f"{key.key}={value}"
            for key, value in zip(keys, values, strict=True)
            if all(key.key != refused for refused, _ in REFUSED)
        ]
        said = " ".join(with_set(*told).notices)
        assert [text for text in told if f"{text.partition('=')[0]} (--set)" not in said] == []


OTHERWISE = "replicas of this gateway work without it"


@pytest.mark.parametrize("key", sorted(REPLICATION))
def test_point_19_keys_about_other_replicas_say_that_ours_do_not_need_them(key: str) -> None:
    assert key in apache_keys()
    if all(key != refused for refused, _ in REFUSED):
        (notice,) = with_set(f"{key}=7").notices
        assert notice == f"{key} (--set): known to Apache RocketMQ, without effect here: {OTHERWISE}"


def test_a_member_of_a_controller_has_any_role_and_needs_a_port() -> None:
    member = ["enableControllerMode=true", "controllerAddr=k1:9878;k2:9878"]
    assert with_set(*member, "brokerId=7").notices == ()
    assert with_set(*member).settings.min_in_sync_replicas == 2
    flushing = with_set(*member, "flushDiskType=ASYNC_FLUSH", "inSyncReplicas=1")
    (notice,) = flushing.notices
    assert notice.endswith("a member sends, shows and reports only what is on its disk, as with SYNC_FLUSH")
    assert flushing.settings.sync_flush
    with pytest.raises(SettingsError, match="a controller is told the port before the broker listens on it"):
        with_set(*member, "listenPort=0")
    (notice,) = with_set(*member, "allAckInSyncStateSet=false").notices
    assert notice.endswith(
        "a send waits for every member of the sync state set in any case: a switch would lose messages otherwise"
    )


def test_settings_of_members_without_a_controller_have_no_effect() -> None:
    (notice,) = with_set("controllerAddr=k1:9878").notices
    assert notice.endswith("no controller is asked")
    (notice,) = with_set("minInSyncReplicas=1").notices
    assert notice.endswith("no controller, no sync state set: see inSyncReplicas")


def test_a_master_that_waits_for_slaves_says_which_settings_ask_for_less() -> None:
    assert with_set("brokerRole=sync_master").notices == ()
    assert with_set("brokerRole=ASYNC_MASTER", "inSyncReplicas=1", "flushDiskType=ASYNC_FLUSH").notices == ()
    assert with_set("brokerRole=SYNC_MASTER", "inSyncReplicas=1").notices == (
        "brokerRole=SYNC_MASTER (--set) and inSyncReplicas=1 (--set): no send waits for a slave, as with ASYNC_MASTER",
    )
    flushed = ["brokerRole=SYNC_MASTER", "flushDiskType=ASYNC_FLUSH"]
    (notice,) = with_set(*flushed).notices
    assert notice == (
        "brokerRole=SYNC_MASTER (--set) and flushDiskType=ASYNC_FLUSH (--set): slaves get only what is on disk here, "
        "so a message is flushed before its send is answered, as with SYNC_FLUSH"
    )
    assert with_set(*flushed).settings.sync_flush
    copying = with_set("brokerRole=SLAVE", "brokerId=1", "flushDiskType=ASYNC_FLUSH")
    assert [notice.partition(": ")[2] for notice in copying.notices] == [
        "a slave shows and reports only what is on its disk"
    ]
    assert copying.settings.sync_flush
    assert load_settings(Role.NAMESERVER, assignments=flushed).notices == ()


def test_point_19_the_opposite_of_a_key_is_not_suggested() -> None:
    with pytest.raises(SettingsError) as refused:
        with_set("autoDeleteTopicEnable=true")
    assert str(refused.value) == "--set autoDeleteTopicEnable: no such setting"
    (notice,) = load_settings(Role.SERVE, environment={"ROCKETMQ_GATEWAY_DISABLE_CONSUME_QUEUE_EXT": "1"}).notices
    assert notice.endswith("kept without effect")


def test_a_misspelt_key_is_kept_and_the_right_one_suggested(tmp_path: Path) -> None:
    loaded = with_file(tmp_path, "flushDiskTyp=ASYNC_FLUSH\nqqqqq=1\n")
    assert loaded.settings.flush_disk_type is FlushDiskType.SYNC_FLUSH
    assert "unknown setting, kept without effect; did you mean flushDiskType?" in loaded.notices[0]
    assert loaded.notices[1].endswith("unknown setting, kept without effect")


@pytest.mark.parametrize("key", ["aclEnabled", "AclEnable", "authenticationEnable", "authorizationenabled"])
def test_a_misspelt_key_of_access_control_ends_the_start(tmp_path: Path, key: str) -> None:
    with pytest.raises(SettingsError) as refused:
        with_file(tmp_path, f"{key}=true\n")
    expected = rf"{key} \(.*broker.conf:1\): no such setting of access control; did you mean a[a-z]+Enabled?\?"
    assert re.fullmatch(expected, str(refused.value))
    with pytest.raises(SettingsError, match=r"did you mean ROCKETMQ_GATEWAY_ACL_ENABLE\?"):
        load_settings(Role.SERVE, environment={"ROCKETMQ_GATEWAY_ACL_ENABLED": "true"})


def test_a_misspelt_environment_variable_is_named() -> None:
    loaded = load_settings(Role.SERVE, environment={"ROCKETMQ_GATEWAY_FLUSH_DISK_TYP": "x", "OTHER": "1"})
    (notice,) = loaded.notices
    assert notice.endswith("did you mean ROCKETMQ_GATEWAY_FLUSH_DISK_TYPE?")


@pytest.mark.parametrize(
    ("assignment", "text"),
    [
        ("flushDiskTyp=x", "--set flushDiskTyp: no such setting; did you mean flushDiskType?"),
        ("qqqqq=x", "--set qqqqq: no such setting"),
        ("listenPort", "--set 'listenPort': expected KEY=VALUE"),
        ("=1", "--set '=1': expected KEY=VALUE"),
        ("listenPort=99999", "listenPort='99999' (--set): expected an integer from 0 to 65535"),
        ("bindAddress=x", "bindAddress='x' (--set): expected an IP address of this machine, 0.0.0.0 or ::"),
        ("brokerId=-1", "brokerId='-1' (--set): expected an integer from 0 to 2147483647"),
        (
            "brokerId=1",
            "brokerId=1 (--set) and brokerRole=ASYNC_MASTER (default): a master has id 0, each slave another",
        ),
        ("flushDiskType=NEVER", "flushDiskType='NEVER' (--set): expected SYNC_FLUSH or ASYNC_FLUSH"),
        (
            "enableControllerMode=true",
            (
                "enableControllerMode=true (--set) and controllerAddr= (default): "
                "a member has to know where controllers are"
            ),
        ),
        ("controllerAddr=k", "controllerAddr='k' (--set): expected HOST:PORT, several separated by ';'"),
        ("enableDLegerCommitLog=true", "enableDLegerCommitLog=true (--set): this gateway has no DLedger log"),
        ("aclEnable=maybe", "aclEnable='maybe' (--set): expected true or false"),
        ("duplicationEnable=", "duplicationEnable='' (--set): expected false"),
        ("brokerIP1=256.1.1.1", "brokerIP1='256.1.1.1' (--set): expected a host name or IP address without a port"),
        ("brokerName=", "brokerName='' (--set): expected a name of letters, digits and . _ - % | @"),
        ("brokerName=a/b", "brokerName='a/b' (--set): expected a name of letters, digits and . _ - % | @"),
        (
            "brokerRole=SLAVE",
            "brokerId=0 (default) and brokerRole=SLAVE (--set): a master has id 0, each slave another",
        ),
        ("haMasterAddress=mq-a", "haMasterAddress='mq-a' (--set): expected HOST:PORT, several separated by ';'"),
    ],
)  # fmt: skip
def test_a_wrong_assignment_is_refused_in_one_line(assignment: str, text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        with_set(assignment)
    assert str(refused.value) == text
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("key", ["aclEnable", "authenticationEnabled"])
def test_access_control_is_off_until_it_is_set(key: str) -> None:
    assert not load_settings(Role.SERVE).settings.is_guarded
    assert with_set(f"{key}= True ").settings.is_guarded
    assert not with_set(f"{key}=false").settings.is_guarded


def test_rights_of_names_that_nobody_proves_are_refused() -> None:
    with pytest.raises(SettingsError, match="anybody could send any user's name"):
        with_set("authorizationEnabled=true")


def test_a_value_may_contain_an_equals_sign() -> None:
    assert with_set("regionId=a=b").settings.region_id == "a=b"


def test_a_wrong_value_in_a_file_names_the_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"fileReservedTime='soon' \(.*/broker.conf:2\): expected an"):
        with_file(tmp_path, "# comment\nfileReservedTime=soon\n")


def test_a_wrong_value_is_refused_even_if_a_later_source_replaces_it(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("listenPort=x\n")
    with pytest.raises(SettingsError):
        load_settings(Role.SERVE, config_file=path, options=[WrittenSetting("listenPort", "1", "--port")])


def test_a_key_that_a_file_repeats_is_refused_with_both_lines(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"broker.conf:3: listenPort is set in line 1 already; remove one"):
        with_file(tmp_path, "listenPort=1\n# comment\nlistenPort=2\n")


def test_a_long_wrong_value_is_cut() -> None:
    with pytest.raises(SettingsError) as refused:
        with_set("listenPort=" + "9" * 500)
    assert len(str(refused.value)) < 200


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot read .*missing\.conf: No such file"):
        load_settings(Role.SERVE, config_file=tmp_path / "missing.conf")
    with pytest.raises(SettingsError, match=r"cannot read .*: Is a directory"):
        load_settings(Role.SERVE, config_file=tmp_path)


def test_in_the_name_servers_file_listen_port_is_its_own(tmp_path: Path) -> None:
    loaded = with_file(tmp_path, "listenPort=9999\n", Role.NAMESERVER)
    assert (loaded.settings.nameserver_port, loaded.settings.listen_port) == (9999, 10911)
    assert with_file(tmp_path, "listenPort=9999\n").settings.listen_port == 9999


@pytest.mark.parametrize(("role", "text"), [(Role.BROKER, "ns:1"), (Role.SERVE, ""), (Role.NAMESERVER, "")])
def test_only_a_broker_of_its_own_joins_the_shells_name_server(role: Role, text: str) -> None:
    loaded = load_settings(role, environment={"NAMESRV_ADDR": "ns:1"})
    assert loaded.settings.namesrv_addr == text


def test_our_own_variable_wins_over_apaches() -> None:
    environment = {"ROCKETMQ_GATEWAY_NAMESRV_ADDR": "ours:1", "NAMESRV_ADDR": "theirs:1"}
    assert load_settings(Role.BROKER, environment=environment).settings.namesrv_addr == "ours:1"


@pytest.mark.parametrize(
    ("assignments", "text"),
    [
        (["maxMessageSize=99999", "gateway.maxFrameBytes=65536"], "the largest message must fit"),
        (["mappedFileSizeCommitLog=1000000"], "mappedFileSizeCommitLog is 1000000, at least 4259840 is needed"),
        (["listenPort=9876"], "both need the same port"),
        (["listenPort=9878"], r"both need the same port \(listenPort-2 is open too\)"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_together_are_refused(assignments: Sequence[str], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        with_set(*assignments)


def test_the_ports_of_separate_processes_may_be_equal() -> None:
    load_settings(Role.BROKER, assignments=["listenPort=9876"])
    load_settings(Role.SERVE, assignments=["listenPort=9878", "gateway.vipChannelEnable=false"])
    load_settings(Role.SERVE, assignments=["listenPort=0", "gateway.nameserverPort=0"])
