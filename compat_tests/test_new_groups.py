"""New groups of stock clients on empty queues, each of which gets its first message while the group begins.

A client asks for the group's offset (14) and, when there is none, for the end of the queue (30): what is stored between
the two answers is lost to the group. Here none may be: an empty queue begins at 0 for every group. As many groups begin
as ten seconds allow; `--starts 1000` begins that many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from compat_tests.java_client import CLIENT_VERSIONS, JavaClient
from compat_tests.peers import GatewayProcess
from compat_tests.scenarios import unused_topic
from gateway.client import AdminClient

QUEUES = 4
BEGIN_S = 10
"""In that time clients of 4.9.8 miss messages of a gateway that does not say where an empty queue begins."""
MOST = 400
"""More starts do not fit into that time."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    peer = GatewayProcess(tmp_path_factory.mktemp("new_groups") / "data", {})
    peer.start()
    yield peer
    peer.stop()


@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_point_2_a_new_group_misses_no_first_message_of_an_empty_queue(
    gateway: GatewayProcess, clients: Callable[[str], JavaClient], version: str, request: pytest.FixtureRequest
) -> None:
    wanted = request.config.getoption("--starts")
    prefix = f"{unused_topic()}_"
    with AdminClient(namesrv=gateway.nameserver) as admin, ThreadPoolExecutor(4) as pool:
        names = [f"{prefix}{number}" for number in range(wanted or MOST)]
        list(pool.map(lambda name: admin.topics.create(name, queues=QUEUES), names))
    limit = {} if wanted else {"for_s": BEGIN_S}
    timeout_s = 60 + (wanted or BEGIN_S)
    got = clients(version).run(
        "new-groups", ns=gateway.nameserver, topic=prefix, starts=len(names), timeout_s=timeout_s, **limit
    )
    print(got)
    assert got["missed"] == 0
    assert got["messages"] == QUEUES * got["starts"], str(got)
    assert got["starts"] >= (wanted or 1)
