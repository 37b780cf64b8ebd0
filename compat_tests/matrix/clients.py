"""The columns of the matrix: which clients there are, how each is started, and what its API cannot say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from compat_tests.access.stands import Stand
from compat_tests.client_program import ClientProgram, client_program
from compat_tests.environment import LABEL, owner
from compat_tests.images import image
from compat_tests.java_client import OVER_TLS
from compat_tests.matrix.doors import DOORS, Door
from compat_tests.peers import container_address
from compat_tests.python_program import PythonProgram

Started = tuple[ClientProgram, str]
"""A running program, and the address its client is to be told."""

NO_SIMPLE = "only gRPC clients, and the Python client, have a simple consumer"
NO_LITE = "only gRPC clients have lite topics"
NO_GRPC = {"simple": NO_SIMPLE, "lite-topics": NO_LITE}
_LITE_PULL = "its lite pull consumer came with 4.6"
_REQUESTS = "request() came with 4.6"
_TIMER = "its messages have only delay levels; times came with 5.0"
_RECALL = "recallMessage() came with 5.3.2"
_POP = "POP came with 5.0"


@dataclass(frozen=True, slots=True)
class Client:
    """A column: `name` for the command line, `title` for the page; `lacks`: feature → why its API cannot say it."""

    name: str
    title: str
    start: Callable[[Stand], AbstractContextManager[Started]]
    lacks: Mapping[str, str] = field(default_factory=dict)
    behind_proxy: bool = False
    """A proxy looks at a topic's `message.type`, and the broker does not see the members of groups."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What its servers are told besides."""
    options: Mapping[str, str] = field(default_factory=dict)
    """What each of its verbs is told besides."""
    closed: frozenset[str] = frozenset()
    """Doors that it cannot enter."""
    knows: frozenset[str] = frozenset()
    """All features that its program asks for, if these are few: the client then has no column in the large table."""

    def can(self, feature: str, door: Door) -> bool:
        """Return whether there is such a cell."""
        known = feature in self.knows if self.knows else feature not in self.lacks
        return known and feature not in door.lacks and door.name not in self.closed


def _started(
    name: str, image_name: str, environment: Mapping[str, str], over_tls: Mapping[str, str] = OVER_TLS
) -> Callable[[Stand], AbstractContextManager[Started]]:
    @contextmanager
    def start(stand: Stand) -> Iterator[Started]:
        more = over_tls if stand.is_encrypted else {}
        with client_program(image(image_name), name, {**environment, **more}) as program:
            yield program, stand.nameserver

    return start


def _java(version: str, lacks: Mapping[str, str]) -> Client:
    start = _started(version, "java-client", {"ROCKETMQ_VERSION": version})
    return Client(f"java-{version}", f"Java {version}", start, {**NO_GRPC, **lacks})


@contextmanager
def _through_proxy(stand: Stand) -> Iterator[Started]:
    """The gRPC client in front of Apache RocketMQ's proxy, which is in front of the peer."""
    proxy = (
        DockerContainer(image("proxy", "5.5.0"))
        .with_env("NAMESERVER", stand.nameserver)
        .with_kwargs(labels={LABEL: owner()})
        .waiting_for(LogMessageWaitStrategy("startup successfully").with_startup_timeout(120))
    )
    with proxy, client_program(image("grpc-client"), "5.2.0", {}) as program:
        yield program, f"{container_address(proxy)}:8081"


@contextmanager
def _python(stand: Stand) -> Iterator[Started]:
    program = PythonProgram()
    try:
        yield program, stand.nameserver
    finally:
        program.close()


_BEFORE_5 = {"timer": _TIMER, "recall": _RECALL, "pop": _POP}
_BEFORE_4_6 = {**_BEFORE_5, "lite-pull": _LITE_PULL, "request-reply": _REQUESTS}

_NO_API = "it has no such call"
_LEVELS_ONLY = "its messages have only delay levels"
_NO_ORDERLY = "messages of a key go to one queue, but the consumer does not lock the queue"
_DEAF = "it does not answer requests from brokers"
_NOT_OF_NODE = (
    "send-oneway",
    "send-batch",
    "recall",
    "transactions",
    "request-reply",
    "lite-pull",
    "pull",
    "pop",
    "trace",
    "query",
)
_NOT_OF_GRPC = (
    "send-oneway",
    "send-batch",
    "compression",
    "broadcasting",
    "request-reply",
    "lite-pull",
    "pull",
    "namespace",
    "trace",
    "query",
)
_NO_TLS = frozenset(door.name for door in DOORS.values() if door.is_encrypted)
_PROXY = "the proxy does this, and not the client"

CLIENTS: dict[str, Client] = {
    client.name: client
    for client in (
        _java(
            "4.3.2",
            {**_BEFORE_4_6, "trace": "message trace came with 4.4", "namespace": "namespaces came with 4.5"},
        ),
        _java("4.5.1", _BEFORE_4_6),
        _java("4.9.8", _BEFORE_5),
        _java("5.3.3", {}),
        _java("5.5.0", {}),
        Client(
            "go",
            "Go rocketmq-client-go 2.1.2",
            _started("go", "go-client", {}, {"GO_CLIENT": "newer"}),
            {
                **NO_GRPC,
                "timer": _LEVELS_ONLY,
                "recall": _NO_API,
                "pop": _NO_API,
                "lite-pull": 'its polling pull consumer is in the row "pull from queues"',
                "query": _NO_API,
            },
        ),
        Client(
            "node",
            "Node ali-ons 3.12.0",
            _started("node", "node-client", {}),
            {
                **NO_GRPC,
                **dict.fromkeys(_NOT_OF_NODE, _NO_API),
                "orderly": _NO_ORDERLY,
                "orderly-retry": _NO_ORDERLY,
                "timer": "it sets a time of delivery only in the way of Alibaba Cloud",
                "reset-online": _DEAF,
                "running-info": _DEAF,
            },
            closed=_NO_TLS,
        ),
        Client(
            "spring",
            "Spring Boot starter 2.3.3",
            _started("spring", "spring-client", {}),
            {**NO_GRPC, **dict.fromkeys(("recall", "pull", "pop", "query"), _NO_API)},
        ),
        Client(
            "grpc",
            "gRPC rocketmq-client-java 5.2.0, proxy 5.5.0",
            _through_proxy,
            {
                **dict.fromkeys(_NOT_OF_GRPC, _NO_API),
                **dict.fromkeys(("auto-topic", "reset-online", "running-info", "rebalance"), _PROXY),
                "delay-level": "its messages have only times",
                "pop": "the proxy pops in every row, so there is no row of its own",
            },
            behind_proxy=True,
            settings={"enableLmq": "true", "enableMultiDispatch": "true"},
        ),
        Client("python", "Python gateway.client", _python, {"lite-topics": NO_LITE}),
        Client(
            "ons",
            "Alibaba's ons-client 1.8.8.8.Final",
            _started("ons", "java-client", {"ROCKETMQ_VERSION": "4.5.1"}),
            options={"api": "ons"},
            knows=frozenset({"send-sync", "push", "transactions"}),
        ),
        Client(
            "cpp",
            "C++ librocketmq of PyPI's rocketmq 0.4.4",
            _started("cpp", "cpp-client", {}),
            knows=frozenset({"send-sync", "push"}),
            closed=_NO_TLS,
        ),
    )
}
SECURED_CLIENTS = ("java-4.9.8", "java-5.5.0", "go", "node", "spring", "ons", "cpp", "python")
"""Those that are tried with TLS and accounts."""
