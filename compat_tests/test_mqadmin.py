"""Stock `mqadmin` against the gateway and against Apache RocketMQ: both are in the same state and print the same.

Compared is the shape of what is printed, and the code where a command fails. What a gateway leaves out it refuses, and
says which request that was. Every command of `mqadmin` is in one of the lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from compat_tests.admin_tool import AdminTool, admin_tool, failure, shape
from compat_tests.conftest import running
from compat_tests.environment import wait_until
from compat_tests.java_client import CLIENT_VERSIONS, JavaClient
from compat_tests.peers import QUICK, make_peer
from compat_tests.scenarios import Scene

TOPIC, GROUP, CLUSTER = "admin_topic", "admin_group", "DefaultCluster"
MESSAGES = 40
ALL = 1_000

SAME: tuple[tuple[str, int], ...] = (
    ("clusterList", ALL),
    ("clusterList -m", 1),
    ("topicRoute -t {topic}", ALL),
    ("topicStatus -t {topic}", ALL),
    ("topicStatus -t missing_topic", ALL),
    ("topicClusterList -t {topic}", ALL),
    ("topicList -c", 1),
    ("allocateMQ -t {topic} -i 1.1.1.1,2.2.2.2", ALL),
    ("brokerStatus -b {broker}", 0),
    ("statsAll -t {topic}", ALL),
    ("consumerProgress", 1),
    ("consumerProgress -g {group}", ALL),
    ("consumerProgress -g {group} -s true", ALL),
    ("consumerProgress -g missing_group", ALL),
    ("consumerConnection -g {group}", ALL),
    ("consumerStatus -g {group}", ALL),
    ("consumerStatus -g {group} -i {client}", ALL),
    ("producerConnection -g CLIENT_INNER_PRODUCER -t {topic}", ALL),
    ("producerConnection -g missing_group -t {topic}", ALL),
    ("producer -b {broker}", ALL),
    ("brokerConsumeStats -b {broker}", 1),
    ("haStatus -b {broker}", ALL),
    ("getBrokerConfig -b {broker}", 1),
    ("getNamesrvConfig", 1),
    ("getConsumerConfig -g {group}", ALL),
    ("queryCq -t {topic} -q 0 -i 0 -c 2", ALL),
    ("queryCq -t {topic} -q 0 -i 0 -c 2 -g {group}", 11),  # then Apache RocketMQ asks property filters only
    ("queryCq -t {topic} -q 0 -i 0 -c 2 -g missing_group", ALL),
    ("queryMsgByOffset -t {topic} -b broker-a -i 0 -o 0", 12),
    ("queryMsgByKey -t {topic} -k {key}", 1),
    ("queryMsgById -t {topic} -i {offset_id}", 12),
    ("queryMsgById -t {topic} -i {offset_id} -g {group} -d {client}", ALL),
    ("queryMsgByUniqueKey -t {topic} -i {unique_id}", 12),
    ("queryMsgByUniqueKey -t {topic} -i {unique_id} -g {group} -d {client}", ALL),
    ("printMsgByQueue -t {topic} -a broker-a -i 0 -f true", ALL),
    ("printMsg -t {topic} -d false", 1),
    ("consumeMessage -t {topic} -b broker-a -i 0 -o 0 -c 1", 1),
    ("sendMessage -t {topic} -p hello -k key -c red", ALL),
    ("checkMsgSendRT -t {topic} -a 3 -s 10", ALL),
    ("updateSubGroup -c {cluster} -g admin_copy -r 3", ALL),
    ("cloneGroupOffset -s {group} -d admin_copy -t {topic}", ALL),
    ("resetOffsetByTime -g admin_copy -t {topic} -s 0", ALL),
    # A commit, which is refused here until a consumer has learnt of the reset below.
    ("resetOffsetByTime -g {group} -t {topic} -s 0 -b {broker} -q 1 -o 3", ALL),
    ("resetOffsetByTime -g {group} -t {topic} -s now", ALL),
    ("resetOffsetByTime -g missing_group -t {topic} -s 0", ALL),
    ("skipAccumulatedMessage -g admin_copy -t {topic}", ALL),
    ("deleteSubGroup -c {cluster} -g admin_copy -r true", ALL),
    ("updateTopic -c {cluster} -t admin_new -r 2 -w 2", ALL),
    ("getBrokerLiteInfo -b {broker}", 1),
    ("updateTopic -c {cluster} -t admin_lite -a +message.type=LITE,+lite.topic.expiration=60", ALL),
    ("updateSubGroup -c {cluster} -g admin_lite_group -o true --attributes +lite.bind.topic=admin_lite", ALL),
    ("getParentTopicInfo -p admin_lite", ALL),
    ("getParentTopicInfo -p {topic}", ALL),
    ("getLiteTopicInfo -p admin_lite -l nothing -s", ALL),
    ("getLiteClientInfo -p admin_lite -g admin_lite_group -c nobody -s", ALL),
    ("getLiteGroupInfo -p admin_lite -g admin_lite_group -k 5", ALL),
    ("getLiteGroupInfo -p admin_lite -g {group} -k 5", ALL),
    ("triggerLiteDispatch -p admin_lite -g admin_lite_group", ALL),
    ("updateTopicPerm -c {cluster} -t admin_new -p 4", ALL),
    ("updateOrderConf -m put -t admin_new -v broker-a:2", ALL),
    ("updateOrderConf -m get -t admin_new", ALL),
    ("updateOrderConf -m delete -t admin_new", ALL),
    ("deleteTopic -c {cluster} -t admin_new", ALL),
    ("setConsumeMode -b {broker} -t {topic} -g {group} -m POP -q 1", ALL),
    ("setConsumeMode -b {broker} -t missing -g {group} -m POP", ALL),
    ("updateKvConfig -s space -k name -v value", ALL),
    ("deleteKvConfig -s space -k name", ALL),
    ("cleanExpiredCQ -c {cluster}", ALL),
    ("cleanUnusedTopic -c {cluster}", ALL),
    ("deleteExpiredCommitLog -c {cluster}", ALL),
    ("exportMetadata -b {broker} -f /tmp/export", ALL),
    ("exportMetrics -c {cluster} -f /tmp/export", ALL),
    ("exportConfigs -c {cluster} -f /tmp/export", ALL),
    ("listUser -b {broker}", ALL),
    ("listAcl -b {broker}", ALL),
    ("wipeWritePerm -b broker-a", ALL),
    ("addWritePerm -b broker-a", ALL),
)
"""Commands in the order in which they run, and how many of their first different lines are compared."""

REFUSED: tuple[tuple[str, str], ...] = (
    ("updateBrokerConfig -b {broker} -k flushDiskType -v ASYNC_FLUSH", "is read at start only"),
    ("getColdDataFlowCtrInfo -b {broker}", "GET_COLD_DATA_FLOW_CTR_INFO"),
    ("updateColdDataFlowCtrGroupConfig -b {broker} -g {group} -v 1", "UPDATE_COLD_DATA_FLOW_CTR_CONFIG"),
    ("removeColdDataFlowCtrGroupConfig -b {broker} -g {group}", "REMOVE_COLD_DATA_FLOW_CTR_CONFIG"),
    ("setCommitLogReadAheadMode -b {broker} -m 0", "SET_COMMITLOG_READ_MODE"),
    ("resetMasterFlushOffset -b {broker} -o 0", "RESET_MASTER_FLUSH_OFFSET"),
)
"""What is left out, and what the refusal names."""

LEFT_OUT: dict[str, str] = {
    "updateTopicList updateSubGroupList": "read a file in the tool's container; their requests have unit tests",
    "queryMsgTraceById": "reads the trace topic, as queryMsgByKey reads any",
    "sendMsgStatus": "sends to the topic of the broker's name, which fails on Apache RocketMQ 5.5.0 at times",
    "startMonitoring clusterRT": "do not end",
    "updateNamesrvConfig": "settings are read at start only",
    "updateStaticTopic remappingStaticTopic": "static topics need several brokers",
    "exportMetadataInRocksDB exportPopRecord dumpCompactionLog rocksDBConfigToJson checkRocksdbCqWriteProgress": (
        "about files that only Apache RocketMQ has"
    ),
    "switchTimerEngine": "about the two timer engines of Apache RocketMQ",
    "addBroker removeBroker": "answered by broker containers",
    "getBrokerEpoch getSyncStateSet getControllerMetaData getControllerConfig updateControllerConfig electMaster "
    "cleanBrokerMetadata": "answered by controllers, or about their replicas",
    "createUser updateUser deleteUser getUser copyUser createAcl updateAcl deleteAcl getAcl copyAcl": (
        "compared in access/test_accounts.py, where there are users"
    ),
}
"""Further commands, and why they are not compared."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A peer with a topic, messages and a running consumer that has them all, and a tool that talks to it."""

    scene: Scene
    tool: AdminTool
    values: dict[str, str]

    def run(self, command: str) -> list[str]:
        return self.tool.run(command.format(**self.values))


@pytest.fixture(scope="module")
def prepared(
    clients: Callable[[str], JavaClient], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Prepared]]:
    """The gateway and Apache RocketMQ in the same state."""
    client = clients(CLIENT_VERSIONS[-1])
    with ExitStack() as stack:
        found = {}
        for name in ("gateway-host", "rocketmq-5.5.0"):
            peer = make_peer(name, tmp_path_factory.mktemp("admin") / "data", {**QUICK, "brokerName": "broker-a"})
            stack.enter_context(running(peer))
            scene = Scene(peer, client, MESSAGES)
            tool = stack.enter_context(admin_tool(peer.nameserver))
            stop = f"admin-{name}"
            stack.callback(client.stop, stop)
            found[name] = Prepared(scene, tool, _prepare(scene, tool, stop))
        for each in found.values():
            _await_retry_topic(each.tool)
        yield found


def _prepare(scene: Scene, tool: AdminTool, stop: str) -> dict[str, str]:
    assert scene.run("create-topic", topic=TOPIC, queues=4)["queues"] == 4
    sent = scene.run("send-sync", topic=TOPIC, run="r1", count=MESSAGES)
    scene.start("consume-push", topic=TOPIC, run="r1", group=GROUP, until=stop, timeout_s=600)
    _await_consumed(tool, GROUP)
    offset_id, unique_id, key = sent.json("ids")[0].split("/")
    (broker,) = set(re.findall(r"(?:\d+\.){3}\d+:\d+", "\n".join(tool.run("clusterList"))))
    (client,) = [line.split()[0] for line in tool.run(f"consumerConnection -g {GROUP}") if "JAVA" in line]
    names = {"topic": TOPIC, "group": GROUP, "cluster": CLUSTER, "broker": broker, "client": client}
    return {**names, "offset_id": offset_id, "unique_id": unique_id, "key": key}


def _await_consumed(tool: AdminTool, group: str) -> None:
    def is_consumed() -> bool:
        lines = tool.run(f"consumerProgress -g {group}")
        # A topic in which the group has no offset yet is not shown, and not counted either.
        return "Consume Diff Total: 0" in lines and any(line.startswith(f"{TOPIC} ") for line in lines)

    wait_until(is_consumed, f"{group} consumed all", timeout_s=60)


def _await_retry_topic(tool: AdminTool) -> None:
    """The consumer has its queues of it: its heartbeat makes the topic, and the next look at routes finds it."""

    def is_there() -> bool:
        return any(line.startswith(f"%RETRY%{GROUP} ") for line in tool.run(f"consumerProgress -g {GROUP}"))

    wait_until(is_there, "the group's retry topic is consumed", timeout_s=90)


def test_commands_print_the_same_as_against_apache_rocketmq(prepared: dict[str, Prepared]) -> None:
    with ThreadPoolExecutor() as pool:  # each tool has a JVM of its own
        printed = pool.map(lambda each: [each.run(command) for command, _ in SAME], prepared.values())
    differences = []
    for (command, count), ours, theirs in zip(SAME, *printed, strict=True):
        seen = failure(ours), shape(ours)[:count]
        wanted = failure(theirs), shape(theirs)[:count]
        if seen[0] != wanted[0] or (seen[0] is None and seen[1] != wanted[1]):
            differences.append(f"{command}\n  ours:   {seen}\n  apache: {wanted}")
    assert not differences, "\n".join(differences)


def test_what_is_left_out_is_refused_by_its_name(prepared: dict[str, Prepared]) -> None:
    for command, reason in REFUSED:
        printed = "\n".join(prepared["gateway-host"].run(command))
        assert reason in printed, f"{command} printed\n{printed}"


def test_a_running_consumer_consumes_again_what_it_is_set_back_to(prepared: dict[str, Prepared]) -> None:
    def consumed(each: Prepared) -> tuple[int, int]:
        group = "reset_group"
        twice = {"count": MESSAGES, "deliveries": 2 * MESSAGES}
        consumer = each.scene.start("consume-push", topic=TOPIC, run="r1", group=group, **twice)
        _await_consumed(each.tool, group)
        lines = each.tool.run(f"resetOffsetByTime -g {group} -t {TOPIC} -s 0")
        assert failure(lines) is None, "\n".join(lines)
        assert all(line.split()[-1] == "0" for line in lines if line.startswith("broker-a")), "\n".join(lines)
        got = consumer.result(timeout=120)
        return got["received"], got["duplicates"]

    with ThreadPoolExecutor() as pool:  # Java's clients wait ten seconds before they go back
        assert dict(zip(prepared, pool.map(consumed, prepared.values()), strict=True)) == dict.fromkeys(
            prepared, (MESSAGES, MESSAGES)
        )


def test_every_command_is_in_one_of_the_lists(prepared: dict[str, Prepared]) -> None:
    lists = [{command.split()[0] for command, _ in SAME}, {command.split()[0] for command, _ in REFUSED}]
    lists.append({name for names in LEFT_OUT for name in names.split()})
    known = prepared["rocketmq-5.5.0"].tool.commands()
    assert known
    missing = [name for name in known if sum(name in names for names in lists) != 1]
    assert not missing, f"in none of the lists, or in several: {missing}"
