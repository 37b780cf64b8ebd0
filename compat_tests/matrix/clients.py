"""The columns of the matrix: which clients there are, how each is started, and what its API cannot say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from compat_tests.client_program import ClientProgram, client_program
from compat_tests.environment import LABEL, owner
from compat_tests.images import image
from compat_tests.peers import Peer, container_address
from compat_tests.python_program import PythonProgram

Started = tuple[ClientProgram, str]
"""A running program, and the address its client is to be told."""

NO_SIMPLE = "a simple consumer is of the gRPC clients"
NO_LITE = "lite topics are of the gRPC clients"
NO_GRPC = {"simple": NO_SIMPLE, "lite-topics": NO_LITE}
_LITE_PULL = "its lite pull consumer came with 4.6"
_REQUESTS = "request() came with 4.6"
_TIMER = "its messages have delay levels only (a time came with 5.0)"
_RECALL = "recallMessage() came with 5.3.2"
_POP = "POP came with 5.0"


@dataclass(frozen=True, slots=True)
class Client:
    """A column: `name` for the command line, `title` for the page; `lacks`: feature → why its API cannot say it."""

    name: str
    title: str
    start: Callable[[Peer], AbstractContextManager[Started]]
    lacks: Mapping[str, str] = field(default_factory=dict)
    behind_proxy: bool = False
    """A proxy looks at a topic's `message.type`, and the broker does not see the members of groups."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What its servers are told besides."""


def _java(version: str, lacks: Mapping[str, str]) -> Client:
    @contextmanager
    def start(peer: Peer) -> Iterator[Started]:
        with client_program(image("java-client"), version, {"ROCKETMQ_VERSION": version}) as program:
            yield program, peer.nameserver

    return Client(f"java-{version}", f"Java {version}", start, {**NO_GRPC, **lacks})


def _program(name: str, title: str, image_name: str, lacks: Mapping[str, str]) -> Client:
    @contextmanager
    def start(peer: Peer) -> Iterator[Started]:
        with client_program(image(image_name), name, {}) as program:
            yield program, peer.nameserver

    return Client(name, title, start, {**NO_GRPC, **lacks})


@contextmanager
def _through_proxy(peer: Peer) -> Iterator[Started]:
    """The gRPC client in front of Apache RocketMQ's proxy, which is in front of the peer."""
    proxy = (
        DockerContainer(image("proxy", "5.5.0"))
        .with_env("NAMESERVER", peer.nameserver)
        .with_kwargs(labels={LABEL: owner()})
        .waiting_for(LogMessageWaitStrategy("startup successfully").with_startup_timeout(120))
    )
    with proxy, client_program(image("grpc-client"), "5.2.0", {}) as program:
        yield program, f"{container_address(proxy)}:8081"


@contextmanager
def _python(peer: Peer) -> Iterator[Started]:
    program = PythonProgram()
    try:
        yield program, peer.nameserver
    finally:
        program.close()


_BEFORE_5 = {"timer": _TIMER, "recall": _RECALL, "pop": _POP}
_BEFORE_4_6 = {**_BEFORE_5, "lite-pull": _LITE_PULL, "request-reply": _REQUESTS}

_NO_API = "it has no such call"
_LEVELS_ONLY = "its messages have delay levels only"
_NO_ORDERLY = "messages of a key go to one queue, but no consumer locks it"
_DEAF = "it answers no requests of a broker"
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
_PROXY = "the proxy stands between, for which this is no matter of the client"

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
        _program(
            "go",
            "Go rocketmq-client-go 2.1.2",
            "go-client",
            {
                "timer": _LEVELS_ONLY,
                "recall": _NO_API,
                "pop": _NO_API,
                "lite-pull": "its pull consumer, which polls, is in the row below",
                "query": _NO_API,
            },
        ),
        _program(
            "node",
            "Node ali-ons 3.12.0",
            "node-client",
            {
                **dict.fromkeys(_NOT_OF_NODE, _NO_API),
                "orderly": _NO_ORDERLY,
                "orderly-retry": _NO_ORDERLY,
                "timer": "a time of delivery is told in Alibaba Cloud's own way only",
                "reset-online": _DEAF,
                "running-info": _DEAF,
            },
        ),
        _program(
            "spring",
            "Spring Boot starter 2.3.3",
            "spring-client",
            dict.fromkeys(("recall", "pull", "pop", "query"), _NO_API),
        ),
        Client(
            "grpc",
            "gRPC rocketmq-client-java 5.2.0, proxy 5.5.0",
            _through_proxy,
            {
                **dict.fromkeys(_NOT_OF_GRPC, _NO_API),
                **dict.fromkeys(("auto-topic", "reset-online", "running-info", "rebalance"), _PROXY),
                "delay-level": "its messages have times only",
                "pop": "it does nothing else, in every row",
            },
            behind_proxy=True,
            settings={"enableLmq": "true", "enableMultiDispatch": "true"},
        ),
        Client("python", "Python gateway.client", _python, {"lite-topics": NO_LITE}),
    )
}
