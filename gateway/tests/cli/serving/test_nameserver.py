"""``nameserver`` has one port, and it is the name server's."""

import pytest
from click.testing import CliRunner

from gateway.cli.main import cli
from gateway.cli.serving import run
from gateway.settings.files.load import Loaded, Role


def test_the_port_is_the_name_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[Role, Loaded]] = []
    monkeypatch.setattr(run, "run", lambda role, loaded: ran.append((role, loaded)))
    result = CliRunner().invoke(cli, ["nameserver", "--port", "19876"])
    assert result.exit_code == 0, result.output
    ((role, loaded),) = ran
    assert (role, loaded.settings.nameserver_port) == (Role.NAMESERVER, 19876)
    assert loaded.settings.listen_port == 10911
