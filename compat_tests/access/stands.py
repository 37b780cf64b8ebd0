"""Servers with access control, each with the same accounts in its generation's own form.

operator      may do everything
everywhere    may send to and receive from every topic, with every group
narrow        only the topic ``orders`` and the group ``packers``
disabled      an account that is switched off; ACL 1.0 has none
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from compat_tests import frames
from compat_tests.client_program import ClientProgram
from compat_tests.environment import wait_until
from compat_tests.frames import Frame
from compat_tests.peers import QUICK, ApacheContainer, GatewayProcess
from compat_tests.scenarios import Scene, unused_topic

CREATE_TOPIC, SET_REQUEST_MODE, CREATE_USER, CREATE_POLICIES = 17, 401, 3001, 3006
OWN_TOPIC, OTHER_TOPIC = "orders", "bills"
OWN_GROUP, OTHER_GROUP = "packers", "bookkeepers"


@dataclass(frozen=True, slots=True)
class Keys:
    """The two keys of an account."""

    access: str
    secret: str

    @property
    def options(self) -> Mapping[str, str]:
        """The options of a client program's verb."""
        return {"access_key": self.access, "secret_key": self.secret}

    def sign(self, frame: Frame) -> Frame:
        return frames.signed(frame, self.access, self.secret)


OPERATOR = Keys("operator", "secret-of-operator")
EVERYWHERE = Keys("everywhere", "secret-of-everywhere")
NARROW = Keys("narrower", "secret-of-narrower")
DISABLED = Keys("disabled", "secret-of-disabled")
UNKNOWN = Keys("stranger", "secret-of-nobody")
WRONG = Keys(NARROW.access, "secret-that-is-wrong")

PLAIN_ACL = f"""\
globalWhiteRemoteAddresses:
  - 192.0.2.7

accounts:
  - accessKey: {OPERATOR.access}
    secretKey: {OPERATOR.secret}
    admin: true

  - accessKey: {EVERYWHERE.access}
    secretKey: {EVERYWHERE.secret}
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: PUB|SUB
    defaultGroupPerm: SUB

  - accessKey: {NARROW.access}
    secretKey: {NARROW.secret}
    defaultTopicPerm: DENY
    defaultGroupPerm: DENY
    topicPerms:
      - {OWN_TOPIC}=PUB|SUB
      - {OTHER_TOPIC}=DENY
    groupPerms:
      - {OWN_GROUP}=SUB
"""
NAMED = {**QUICK, "brokerName": "broker-a"}
USERS_AND_POLICIES = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": OPERATOR.access, "password": OPERATOR.secret}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": OPERATOR.access, "secretKey": OPERATOR.secret}),
    "authenticationMetadataProvider": (
        "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "authorizationMetadataProvider": (
        "org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider"
    ),
}
"""Lines of broker.conf that Apache RocketMQ needs as well."""


class Stand:
    """A running server with these accounts."""

    generation = ""

    def __init__(self, peer: ApacheContainer | GatewayProcess) -> None:
        self.peer = peer

    @property
    def is_apache(self) -> bool:
        return isinstance(self.peer, ApacheContainer)

    @property
    def nameserver(self) -> str:
        return self.peer.nameserver

    @property
    def _host(self) -> str:
        return self.nameserver.partition(":")[0]

    @property
    def broker(self) -> tuple[str, int]:
        """The broker's address for requests from here."""
        if isinstance(self.peer, ApacheContainer):
            return self.peer.broker_address
        return "127.0.0.1", self.peer.broker_port

    @property
    def broker_name(self) -> str:
        """Return the broker's address as tools name it."""
        return f"{self._host}:{self.broker[1]}"

    def ask(self, frame: Frame, keys: Keys | None = OPERATOR) -> Frame:
        """Send a request to the broker and return its answer."""
        answer = frames.ask(self.broker, frame if keys is None else keys.sign(frame))
        assert answer is not None, f"no answer to {frame.header}"
        return answer

    def prepare(self) -> None:
        """Make the topics of all tests, and the accounts."""
        for topic in (OWN_TOPIC, OTHER_TOPIC):
            self.create_topic(topic)

    def create_topic(self, name: str, queues: int = 4) -> None:
        """Make a topic, and wait until the name server knows it."""
        self.demand(frames.request(CREATE_TOPIC, _topic(name, queues)))
        host, port = self.nameserver.split(":")

        def is_known() -> bool:
            asked = OPERATOR.sign(frames.request(frames.GET_ROUTE, {"topic": name}))
            answer = frames.ask((host, int(port)), asked)
            return answer is not None and answer.code == 0

        wait_until(is_known, f"a route of {name}")

    def let_pop(self, topic: str, group: str) -> None:
        """Have a group pop the topic from the broker."""
        mode = {"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": 0}
        self.demand(frames.request(SET_REQUEST_MODE, body=json.dumps(mode).encode()))

    def scene(self, client: ClientProgram, keys: Keys | None, messages: int = 0) -> AccountScene:
        """Return the scene of a client with the keys of an account, or without."""
        return AccountScene(self.peer, client, messages, keys={} if keys is None else keys.options, stand=self)

    def demand(self, frame: Frame) -> None:
        """Send a request as the operator, who must not be refused."""
        answer = self.ask(frame)
        assert answer.code == 0, f"{frame.code}: {answer.code} {answer.remark}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountScene(Scene):
    """A client with the keys of an account; the operator makes its topics."""

    stand: Stand

    def topic(self, queues: int = 4) -> str:
        name = unused_topic()
        self.stand.create_topic(name, queues)
        return name


class StandOf4(Stand):
    """Accounts of ACL 1.0, in a file that was there before."""

    generation = "1.0"


class StandOf5(Stand):
    """Users and policies, made by requests."""

    generation = "2.0"

    def prepare(self) -> None:
        super().prepare()
        for keys in (EVERYWHERE, NARROW, DISABLED):
            self._create_user(keys)
        self._allow(EVERYWHERE, "Topic:*", "Pub", "Sub", "Get")
        self._allow(EVERYWHERE, "Group:*", "Sub", "Get")
        self._allow(NARROW, f"Topic:{OWN_TOPIC}", "Pub", "Sub", "Get")
        self._allow(NARROW, f"Group:{OWN_GROUP}", "Sub", "Get")
        self._allow(NARROW, f"Topic:{OTHER_TOPIC}", "All", decision="Deny")

    def _create_user(self, keys: Keys) -> None:
        status = "disable" if keys is DISABLED else "enable"
        user = {"username": keys.access, "password": keys.secret, "userType": "Normal", "userStatus": status}
        body = json.dumps(user).encode()
        self.demand(frames.request(CREATE_USER, {"username": keys.access}, body))

    def _allow(self, keys: Keys, resource: str, *actions: str, decision: str = "Allow") -> None:
        subject = f"User:{keys.access}"
        entry = {"resource": resource, "actions": list(actions), "decision": decision}
        policies = [{"policyType": "Custom", "entries": [entry]}]
        body = json.dumps({"subject": subject, "policies": policies}).encode()
        self.demand(frames.request(CREATE_POLICIES, {"subject": subject}, body))


def apache_of_4() -> Stand:
    """Return ACL 1.0 as Apache RocketMQ 4.9.8 has it."""
    operator = (OPERATOR.access, OPERATOR.secret)
    return StandOf4(
        ApacheContainer({**QUICK, "aclEnable": "true"}, version="4.9.8", plain_acl=PLAIN_ACL, operator=operator)
    )


def apache_of_5() -> Stand:
    """Return users and policies as Apache RocketMQ 5.5.0 has them."""
    settings = {**QUICK, **USERS_AND_POLICIES}
    return StandOf5(ApacheContainer(settings, operator=(OPERATOR.access, OPERATOR.secret)))


def gateway_of_4(folder: Path) -> Stand:
    """Return this gateway with the file of 4.9.8."""
    conf = folder / "home" / "conf"
    conf.mkdir(parents=True)
    (conf / "plain_acl.yml").write_text(PLAIN_ACL)
    return StandOf4(GatewayProcess(folder / "data", {**NAMED, "aclEnable": "true", "rocketmqHome": str(conf.parent)}))


def gateway_of_5(folder: Path) -> Stand:
    """Return this gateway with the settings of 5.5.0; like there, the operator sees passwords."""
    settings = {**NAMED, "gateway.passwordReaders": OPERATOR.access}
    return StandOf5(GatewayProcess(folder / "data", {**settings, **USERS_AND_POLICIES}))


def _topic(name: str, queues: int) -> dict[str, str]:
    numbers = {"readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6"}
    return {
        "topic": name,
        "defaultTopic": "TBW102",
        **numbers,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
