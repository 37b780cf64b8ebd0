"""The servers of each role, and the name server with the face of a server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.testing import MemoryReactorClock

from gateway.cli.serving.servers import ListeningNameServer, make_parts
from gateway.errors import SettingsError
from gateway.settings import Settings
from gateway.settings.files.load import Role


class PoolReactor(MemoryReactorClock):
    """A memory reactor whose threads work at once, in this thread."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def callInThread(self, work: Any, *arguments: Any) -> None:  # noqa: N802
        work(*arguments)

    def callFromThread(self, function: Any, *arguments: Any) -> None:  # noqa: N802
        function(*arguments)


def settings(directory: Path) -> Settings:
    return Settings(store_path_root_dir=directory, nameserver_port=9876)


@pytest.mark.parametrize(
    ("role", "labels"),
    [
        (Role.SERVE, ["nameserver", "broker"]),
        (Role.BROKER, ["broker"]),
        (Role.NAMESERVER, ["nameserver"]),
    ],
)
def test_a_role_has_its_servers_in_the_order_of_their_start(role: Role, labels: list[str], tmp_path: Path) -> None:
    parts = make_parts(role, settings(tmp_path), PoolReactor())
    assert [part.label for part in parts] == labels


@pytest.mark.parametrize("role", list(Role))
def test_a_file_cannot_be_the_data_directory(role: Role, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.touch()
    with pytest.raises(SettingsError, match=r"notes\.txt is a file: --data"):
        next(make_parts(role, settings(file), PoolReactor()))


def test_the_name_server_is_there_before_the_brokers_code_is_loaded() -> None:
    code = (
        "import sys\n"
        "from twisted.internet.testing import MemoryReactorClock\n"
        "from gateway.cli.serving.servers import make_parts\n"
        "from gateway.settings import Settings\n"
        "from gateway.settings.files.load import Role\n"
        "parts = make_parts(Role.SERVE, Settings(nameserver_port=9876), MemoryReactorClock())\n"
        "assert next(parts).label == 'nameserver'\n"
        "prefixes = ('gateway.broker', 'gateway.store', 'gateway.delivery', 'gateway.transaction')\n"
        "print(*(name for name in sys.modules if name.startswith(prefixes)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("\n", "")


def test_the_name_server_listens_when_started_and_not_after_its_stop(tmp_path: Path) -> None:
    reactor = PoolReactor()
    server = ListeningNameServer(settings(tmp_path), reactor)
    ended: list[object] = []
    ensureDeferred(server.start())
    assert [listener[0] for listener in reactor.tcpServers] == [9876]
    ensureDeferred(server.stop()).addBoth(ended.append)
    assert ended == [None]


def test_a_name_server_that_never_started_can_be_stopped(tmp_path: Path) -> None:
    ended: list[object] = []
    server = ListeningNameServer(settings(tmp_path), PoolReactor())
    ensureDeferred(server.stop()).addBoth(ended.append)
    assert ended == [None]
