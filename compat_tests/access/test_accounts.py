"""Clients with accounts: what they may do works with every API, and what they may not is refused in known words."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from compat_tests import frames
from compat_tests.access import admin_commands, apis
from compat_tests.access.stands import (
    DISABLED,
    EVERYWHERE,
    NARROW,
    OPERATOR,
    OTHER_GROUP,
    OTHER_TOPIC,
    OWN_GROUP,
    OWN_TOPIC,
    UNKNOWN,
    WRONG,
    Keys,
    Make,
    Stand,
    apache_of_4,
    apache_of_5,
    gateway_of_4,
    gateway_of_5,
)
from compat_tests.admin_tool import admin_tool
from compat_tests.environment import wait_until
from compat_tests.frames import Frame
from compat_tests.java_client import CLIENT_VERSIONS, JavaClient
from compat_tests.python_program import PythonProgram
from compat_tests.scenarios import run_name, unused_topic
from gateway.client import AclError, Message, Producer, ProducerSettings, RocketMQError

TARGETS: dict[str, tuple[Make, tuple[str, ...]]] = {
    "rocketmq-4.9.8": (apache_of_4, ("4.9.8",)),
    "rocketmq-5.5.0": (apache_of_5, ("5.5.0",)),
    "gateway-1.0": (gateway_of_4, CLIENT_VERSIONS),
    "gateway-2.0": (gateway_of_5, CLIENT_VERSIONS),
}
"""Servers, and the versions of the Java clients that are tried with them."""
PATIENCE_S = 20


@pytest.fixture(scope="module", params=TARGETS)
def target(request: pytest.FixtureRequest) -> str:
    """Return the name of the server that runs now."""
    return str(request.param)


@pytest.fixture(scope="module")
def stand(target: str, engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    make, _ = TARGETS[target]
    found = make(tmp_path_factory.mktemp("accounts"))
    found.peer.start()
    try:
        found.prepare()
        yield found
    finally:
        found.peer.stop()


@pytest.fixture(scope="module")
def java(target: str, clients: Callable[[str], JavaClient]) -> list[JavaClient]:
    return [clients(version) for version in TARGETS[target][1]]


def words(stand: Stand, of_4: str, of_5: str) -> str:
    """Return the words of the server's generation."""
    return of_4 if stand.generation == "1.0" else of_5


def refusals(stand: Stand) -> list[tuple[Keys | None, str]]:
    """Return keys with which nothing may be sent to OTHER_TOPIC, and the words that say so."""
    found: list[tuple[Keys | None, str]] = [
        (None, words(stand, "AclException: No accessKey is configured", "username cannot be null.")),
        (UNKNOWN, words(stand, "AclException: No acl config for stranger", "User:stranger is not found.")),
        (
            WRONG,
            words(stand, "AclException: Check signature failed for accessKey=narrower", "check signature failed."),
        ),
        (
            NARROW,
            words(
                stand,
                f"AclException: No default permission for topic:{OTHER_TOPIC}",
                f"User:narrower has no permission to access Topic:{OTHER_TOPIC} from ",
            ),
        ),
    ]
    return found if stand.generation == "1.0" else [*found, (DISABLED, "User:disabled is disabled.")]


def test_every_api_works_with_the_rights_to_it(stand: Stand, java: list[JavaClient]) -> None:
    apis.try_at_once(stand, (*java, PythonProgram()), apis.ALL)


def test_a_java_producer_is_refused_in_the_words_of_apache_rocketmq(stand: Stand, java: list[JavaClient]) -> None:
    for client in java:
        for keys, refusal in refusals(stand):
            scene = stand.scene(client, keys)
            sent = scene.run("send-sync", topic=OTHER_TOPIC, run="refused", count=1, retries=0, threads=1)
            ((said, _),) = sent.json("errors").items()
            assert (sent["acknowledged"], sent["failed"]) == (0, 1), str(sent)
            assert refusal in said
        own = stand.scene(client, NARROW).run("send-sync", topic=OWN_TOPIC, run="own", count=1)
        assert own["acknowledged"] == 1, str(own)


def test_the_python_producer_names_the_refusal(stand: Stand) -> None:
    for keys, refusal in refusals(stand):
        options = {} if keys is None else keys.options
        settings = ProducerSettings(namesrv=stand.nameserver, **options)  # type: ignore[arg-type]
        with Producer("refused", settings) as producer, pytest.raises(RocketMQError) as caught:
            producer.send(Message(OTHER_TOPIC, b"refused"))
        assert refusal in str(caught.value)
        assert isinstance(caught.value, AclError)


def test_a_pull_consumer_hears_which_right_it_lacks(stand: Stand, java: list[JavaClient]) -> None:
    for client in java:
        scene = stand.scene(client, NARROW)
        stand.scene(client, EVERYWHERE).run("send-sync", topic=OTHER_TOPIC, run="any", count=4)
        topic = words(stand, f"No default permission for topic:{OTHER_TOPIC}", f"Topic:{OTHER_TOPIC}")
        with pytest.raises(AssertionError, match=topic):
            scene.run("consume-pull", topic=OTHER_TOPIC, run="any", group=OWN_GROUP, count=1)
        group = words(stand, f"No default permission for group:{OTHER_GROUP}", f"Group:{OTHER_GROUP}")
        with pytest.raises(AssertionError, match=group):
            scene.run("consume-pull", topic=OWN_TOPIC, run="any", group=OTHER_GROUP, count=1)


def test_one_forbidden_consumer_of_a_client(stand: Stand, java: list[JavaClient]) -> None:
    """It gets nothing; the other, of the same client, gets everything here, and nothing from Apache RocketMQ."""
    for client in java:
        scene = stand.scene(client, NARROW, 20)
        run = run_name(unused_topic())
        scene.run("send-sync", topic=OWN_TOPIC, run=run, count=20)
        stand.scene(client, EVERYWHERE).run("send-sync", topic=OTHER_TOPIC, run=run, count=20)
        got = scene.run(
            "consume-together",
            topic=OWN_TOPIC,
            group=OWN_GROUP,
            other=OTHER_TOPIC,
            other_group=OTHER_GROUP,
            run=run,
            count=20,
            timeout_s=5 if stand.is_apache else PATIENCE_S,
        )
        assert (got["received"], got["other_received"]) == (0 if stand.is_apache else 20, 0), str(got)


HOLES: dict[str, tuple[Frame, ...]] = {
    "1.0": (
        frames.request(21),
        frames.request(26),
        frames.request(28),
        frames.request(43),
        frames.request(50, {"accessKey": "intruder", "secretKey": "secret-of-intruder", "admin": "true"}),
    ),
    "2.0": (
        frames.request(21),
        frames.request(25, body=b"brokerPermission=6\n"),
        frames.request(26),
        frames.request(28),
        frames.request(43),
        frames.request(200, body=b'{"groupName": "intruders"}'),
    ),
}
"""Requests that Apache RocketMQ executes for every account."""


def test_requests_about_the_whole_broker_need_more_than_an_account(stand: Stand) -> None:
    """Apache RocketMQ executes them, and tells even passwords."""
    for asked in HOLES[stand.generation]:
        answer = stand.ask(asked, NARROW)
        refusal = words(stand, "AclException: Need admin permission", "has no permission to access")
        assert (answer.code == 0) is stand.is_apache, f"{asked.code}: {answer.code} {answer.remark}"
        assert stand.is_apache or refusal in answer.remark, f"{asked.code}: {answer.remark}"
    told = stand.ask(frames.request(26)).body.decode()
    assert (OPERATOR.secret in told) is (stand.is_apache and stand.generation == "2.0")


def test_a_listed_address_needs_no_signature(stand: Stand) -> None:
    """Only ACL 1.0 knows such addresses; a change counts at once here, and within five seconds there."""
    if stand.generation == "2.0":
        return

    def is_served() -> bool:
        return stand.ask(frames.request(26), None).code == 0

    def listed(addresses: str) -> Frame:
        return frames.request(53, {"globalWhiteAddrs": addresses, "aclFileFullPath": ""})

    with socket.create_connection(stand.broker) as connection:
        own = connection.getsockname()[0]
    assert not is_served()
    stand.demand(listed(f"{own},192.0.2.7"))
    wait_until(is_served, "an unsigned request is served", timeout_s=10)
    stand.demand(listed("192.0.2.7"))
    wait_until(lambda: not is_served(), "an unsigned request is refused", timeout_s=10)


def test_mqadmin_prints_what_it_prints_against_apache_rocketmq(stand: Stand) -> None:
    version, commands = "5.5.0", admin_commands.USERS_OF_5
    if stand.generation == "1.0":
        version, commands = "4.9.8", admin_commands.ACCOUNTS_OF_4
    broker = stand.broker_name
    with admin_tool(stand.nameserver, version) as tool:
        unsigned = words(stand, "1 org.apache.rocketmq.acl.common.AclException: No accessKey", "16 username cannot be")
        assert admin_commands.printed(tool, broker, commands[-1][0]).startswith(unsigned)
        tool.sign(OPERATOR.access, OPERATOR.secret)
        different = admin_commands.differences(tool, broker, commands)
    assert not different, "\n".join(different)
