"""Fixtures of the compatibility tests, their options, and a table of what ran against what."""

from __future__ import annotations

import functools
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from compat_tests import environment, written
from compat_tests.java_client import CLIENT_VERSIONS, JavaClient, java_client
from compat_tests.peers import QUICK, Peer, make_peer
from compat_tests.scenarios import Scene

# The control proves that the tests are right: one client version is enough for that, and a part of the messages.
PAIRS = (
    ("gateway-host", "4.9.8"),
    ("gateway-host", "5.5.0"),
    ("rocketmq-5.5.0", "5.5.0"),
)
PLAIN = ("gateway-plain", "5.5.0")
PART = 4
"""The control and the gateway without quick parts get one message of this many."""
pytest.register_assert_rewrite("compat_tests.python_consumers")  # its modules have tests, but no names of such
CONTROL_RERUNS = 2
"""How often a test of Apache RocketMQ may be run again; one of the gateway never is. The control loses a little now and
then (see docs/differences.md), and a test that passes against it once is shown to be right."""
SECONDS = Path(__file__).with_name("seconds.json")
"""What each file took when that was measured last, on two cores."""
UNMEASURED_S = 60
_LINES: list[str] = []
_TOOK_S: defaultdict[str, float] = defaultdict(float)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rounds",
        type=int,
        default=int(os.environ.get("COMPAT_ROUNDS", "3")),
        help="kill -9 rounds under load",
    )
    parser.addoption(
        "--messages",
        type=int,
        default=int(os.environ.get("COMPAT_MESSAGES", "10000")),
        help="messages per API",
    )
    parser.addoption("--starts", type=int, default=0, help="new groups that begin; 0: as many as ten seconds allow")
    parser.addoption("--record-seconds", action="store_true", help="write compat_tests/seconds.json anew")
    parser.addoption("--record-vectors", action="store_true", help="write compat_tests/vectors anew")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the control its further chances; begin with the files that take longest, so that workers end together."""
    seconds = json.loads(SECONDS.read_text())
    items.sort(key=lambda item: -seconds.get(item.path.name, UNMEASURED_S))
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and "rocketmq-" in item.callspec.id:
            item.add_marker(pytest.mark.flaky(reruns=CONTROL_RERUNS))


def pair_name(pair: tuple[str, str]) -> str:
    """The name of a peer with a client in the name of a test."""
    return f"{pair[0]}-client-{pair[1]}"


@pytest.fixture(scope="session", autouse=True)
def engine() -> Iterator[None]:
    """A Docker engine without leftovers of earlier runs."""
    environment.start_engine()
    environment.remove_leftovers()
    yield
    environment.remove_leftovers()


@pytest.fixture(scope="session")
def clients(engine: None) -> Iterator[Callable[[str], JavaClient]]:
    """Client containers by version, started when first asked for, kept for the session."""
    with ExitStack() as stack:
        yield functools.cache(lambda version: stack.enter_context(java_client(version)))


# Not for the whole session: Apache RocketMQ takes a part of a core also when nobody asks it.
@pytest.fixture(scope="module", params=PAIRS, ids=pair_name)
def scene(
    request: pytest.FixtureRequest,
    clients: Callable[[str], JavaClient],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Scene]:
    """One peer with one client version; the peer is fresh."""
    peer_name, version = request.param
    peer = make_peer(peer_name, tmp_path_factory.mktemp("peer") / "data", QUICK)
    messages = request.config.getoption("--messages")
    with running(peer):
        yield Scene(peer, clients(version), messages if peer_name == "gateway-host" else messages // PART)


@pytest.fixture(scope="module")
def in_container(
    request: pytest.FixtureRequest,
    clients: Callable[[str], JavaClient],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Scene]:
    """The gateway in a container of its own, with the newest client."""
    peer = make_peer("gateway-container", tmp_path_factory.mktemp("peer") / "data", QUICK)
    with running(peer):
        yield Scene(peer, clients(CLIENT_VERSIONS[-1]), request.config.getoption("--messages"))


@pytest.fixture(scope="session")
def gateway(
    request: pytest.FixtureRequest,
    clients: Callable[[str], JavaClient],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Scene]:
    """The gateway as a process with the newest client: for tests in which nothing is compared."""
    peer = make_peer("gateway-host", tmp_path_factory.mktemp("gateway") / "data", QUICK)
    with running(peer):
        yield Scene(peer, clients(CLIENT_VERSIONS[-1]), request.config.getoption("--messages"))


@pytest.fixture(scope="session")
def written_by_gateway(
    clients: Callable[[str], JavaClient], tmp_path_factory: pytest.TempPathFactory
) -> written.Directory:
    """A store of ours to be copied."""
    path = tmp_path_factory.mktemp("written") / "gateway"
    return written.written_by_gateway(clients(CLIENT_VERSIONS[-1]), path)


@pytest.fixture(scope="session")
def written_by_apache(
    clients: Callable[[str], JavaClient], tmp_path_factory: pytest.TempPathFactory
) -> written.Directory:
    """A store of Apache RocketMQ to be copied."""
    path = tmp_path_factory.mktemp("written") / "apache"
    return written.written_by_apache(clients(CLIENT_VERSIONS[-1]), path)


@contextmanager
def running(peer: Peer) -> Iterator[Peer]:
    """Start a peer, and stop it whatever happens."""
    peer.start()
    try:
        yield peer
    finally:
        peer.stop()


@pytest.fixture
def newest_client(clients: Callable[[str], JavaClient]) -> JavaClient:
    """Return the newest client, for tests in which the client's version does not matter."""
    return clients(CLIENT_VERSIONS[-1])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what ran; the process that prints the summary is told of the tests of all workers."""
    _TOOK_S[Path(report.nodeid.partition("::")[0]).name] += report.duration
    if report.when == "call" or (report.when == "setup" and report.outcome != "passed"):
        _LINES.append(f"{report.outcome:8}{report.duration:7.1f} s  {report.nodeid.removeprefix('compat_tests/')}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("--record-seconds"):
        known = json.loads(SECONDS.read_text()) | {name: max(1, round(took)) for name, took in _TOOK_S.items()}
        SECONDS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    terminalreporter.section("compatibility")
    for line in _LINES:
        terminalreporter.write_line(line)
