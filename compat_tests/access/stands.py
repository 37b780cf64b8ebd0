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
from typing import Protocol

from compat_tests import frames
from compat_tests.client_program import ClientProgram
from compat_tests.environment import wait_until
from compat_tests.frames import Frame
from compat_tests.peers import QUICK, ApacheContainer, GatewayProcess
from compat_tests.scenarios import Scene, unused_topic
from gateway.client import ClientSettings, TlsSettings

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


ENCRYPTED = {"tls.server.mode": "enforcing"}
"""The setting with which this gateway serves no plain connection."""


class Stand:
    """A running server with these accounts; without any as it stands here."""

    generation = ""

    def __init__(self, peer: ApacheContainer | GatewayProcess, *, is_encrypted: bool = False) -> None:
        self.peer = peer
        self.is_encrypted = is_encrypted
        """Its clients speak TLS."""

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
        answer = frames.ask(self.broker, frame if keys is None else keys.sign(frame), encrypted=self.is_encrypted)
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
            answer = frames.ask((host, int(port)), asked, encrypted=self.is_encrypted)
            return answer is not None and answer.code == 0

        wait_until(is_known, f"a route of {name}")

    def let_pop(self, topic: str, group: str) -> None:
        """Have a group pop the topic from the broker."""
        mode = {"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": 0}
        self.demand(frames.request(SET_REQUEST_MODE, body=json.dumps(mode).encode()))

    def options(self, keys: Keys | None) -> Mapping[str, str]:
        """Return the options of each verb of a client with the keys of an account, or without."""
        return {**({} if keys is None else keys.options), **({"tls": "true"} if self.is_encrypted else {})}

    def operator(self) -> ClientSettings:
        """Return the settings of the operator's own client."""
        tls = TlsSettings(verify=False) if self.is_encrypted else False
        return ClientSettings(namesrv=self.nameserver, tls=tls, **OPERATOR.options)  # type: ignore[arg-type]

    def scene(self, client: ClientProgram, keys: Keys | None, messages: int = 0) -> AccountScene:
        """Return the scene of a client with the keys of an account, or without."""
        return AccountScene(self.peer, client, messages, keys=self.options(keys), stand=self)

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


class Make(Protocol):
    """Makes a server, not yet started; a folder is for what it keeps on this machine."""

    def __call__(self, folder: Path, settings: Mapping[str, str] = ..., *, is_encrypted: bool = ...) -> Stand: ...


def apache(folder: Path, settings: Mapping[str, str] = QUICK, *, is_encrypted: bool = False) -> Stand:
    """Return Apache RocketMQ 5.5.0 without accounts."""
    return Stand(ApacheContainer(dict(settings), speaks_tls=is_encrypted), is_encrypted=is_encrypted)


def apache_of_4(folder: Path, settings: Mapping[str, str] = QUICK, *, is_encrypted: bool = False) -> Stand:
    """Return ACL 1.0 as Apache RocketMQ 4.9.8 has it."""
    peer = ApacheContainer(
        {**settings, "aclEnable": "true"},
        version="4.9.8",
        plain_acl=PLAIN_ACL,
        operator=(OPERATOR.access, OPERATOR.secret),
        speaks_tls=is_encrypted,
    )
    return StandOf4(peer, is_encrypted=is_encrypted)


def apache_of_5(folder: Path, settings: Mapping[str, str] = QUICK, *, is_encrypted: bool = False) -> Stand:
    """Return users and policies as Apache RocketMQ 5.5.0 has them."""
    operator = (OPERATOR.access, OPERATOR.secret)
    peer = ApacheContainer({**settings, **USERS_AND_POLICIES}, operator=operator, speaks_tls=is_encrypted)
    return StandOf5(peer, is_encrypted=is_encrypted)


def gateway(folder: Path, settings: Mapping[str, str] = NAMED, *, is_encrypted: bool = False) -> Stand:
    """Return this gateway without accounts."""
    return Stand(_gateway(folder, settings, is_encrypted=is_encrypted), is_encrypted=is_encrypted)


def gateway_of_4(folder: Path, settings: Mapping[str, str] = NAMED, *, is_encrypted: bool = False) -> Stand:
    """Return this gateway with the file of 4.9.8."""
    conf = folder / "home" / "conf"
    conf.mkdir(parents=True)
    (conf / "plain_acl.yml").write_text(PLAIN_ACL)
    more = {**settings, "aclEnable": "true", "rocketmqHome": str(conf.parent)}
    return StandOf4(_gateway(folder, more, is_encrypted=is_encrypted), is_encrypted=is_encrypted)


def gateway_of_5(folder: Path, settings: Mapping[str, str] = NAMED, *, is_encrypted: bool = False) -> Stand:
    """Return this gateway with the settings of 5.5.0; like there, the operator sees passwords."""
    more = {**settings, "gateway.passwordReaders": OPERATOR.access, **USERS_AND_POLICIES}
    return StandOf5(_gateway(folder, more, is_encrypted=is_encrypted), is_encrypted=is_encrypted)


def _gateway(folder: Path, settings: Mapping[str, str], *, is_encrypted: bool) -> GatewayProcess:
    return GatewayProcess(folder / "data", {**settings, **(ENCRYPTED if is_encrypted else {})})


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
