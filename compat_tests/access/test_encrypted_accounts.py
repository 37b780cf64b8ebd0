"""Clients with accounts over TLS, at servers that refuse plain connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from compat_tests.access import admin_commands, apis
from compat_tests.access.stands import OPERATOR, Make, Stand, gateway_of_4, gateway_of_5
from compat_tests.admin_tool import admin_tool
from compat_tests.java_client import CLIENT_VERSIONS, OVER_TLS, JavaClient, java_client
from compat_tests.python_program import PythonProgram


@pytest.fixture(scope="module", params=[gateway_of_4, gateway_of_5], ids=["gateway-1.0", "gateway-2.0"])
def stand(request: pytest.FixtureRequest, engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    make: Make = request.param
    found = make(tmp_path_factory.mktemp("encrypted"), is_encrypted=True)
    found.peer.start()
    try:
        found.prepare()
        yield found
    finally:
        found.peer.stop()


@pytest.fixture(scope="module")
def java(engine: None) -> Iterator[list[JavaClient]]:
    """Clients of both generations that speak TLS only."""
    with ExitStack() as stack:
        yield [stack.enter_context(java_client(version, OVER_TLS)) for version in CLIENT_VERSIONS]


def test_what_clients_do_with_keys_they_do_with_keys_over_tls(stand: Stand, java: list[JavaClient]) -> None:
    apis.try_at_once(stand, (*java, PythonProgram()), (apis.pushed, apis.pulled, apis.transacted, apis.popped))


def test_mqadmin_with_keys_prints_the_same_over_tls(stand: Stand) -> None:
    version, commands = "5.5.0", admin_commands.USERS_OF_5
    if stand.generation == "1.0":
        version, commands = "4.9.8", admin_commands.ACCOUNTS_OF_4
    with admin_tool(stand.nameserver, version, OVER_TLS) as tool:
        tool.sign(OPERATOR.access, OPERATOR.secret)
        different = admin_commands.differences(tool, stand.broker_name, commands)
    assert not different, "\n".join(different)
