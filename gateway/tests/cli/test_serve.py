"""``serve`` turns its options into settings and runs both servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli import run
from gateway.cli.main import cli
from gateway.settings.load import Loaded, Role


def test_every_option_becomes_a_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[tuple[Role, Loaded]] = []
    monkeypatch.setattr(run, "run", lambda role, loaded: ran.append((role, loaded)))
    options = ["--data", str(tmp_path), "--port", "1", "--nameserver-port", "2", "-n", "other:3"]
    options += ["--advertise", "mq:4", "--bind", "0.0.0.0", "--log-level", "debug", "--set", "traceOn=false"]
    result = CliRunner().invoke(cli, ["serve", *options])
    assert result.exit_code == 0, result.output
    ((role, loaded),) = ran
    settings = loaded.settings
    assert role is Role.SERVE
    assert settings.store_path_root_dir == tmp_path
    assert (settings.listen_port, settings.nameserver_port) == (1, 2)
    assert settings.name_server_addresses == (("other", 3),)
    assert settings.advertised == ("mq", 4)
    assert (settings.bind_address, settings.log_level, settings.trace_on) == ("0.0.0.0", "DEBUG", False)
