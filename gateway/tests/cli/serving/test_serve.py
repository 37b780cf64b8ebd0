"""``serve`` turns its options into settings and runs both servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli.main import cli
from gateway.cli.serving import run
from gateway.settings.files.load import Loaded, Role


def test_every_option_becomes_a_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[tuple[Role, Loaded, int]] = []
    monkeypatch.setattr(run, "run", lambda role, loaded, *, members: ran.append((role, loaded, len(members))))
    options = ["--data", str(tmp_path), "--port", "1", "--nameserver-port", "2", "-n", "other:3"]
    options += ["--advertise", "mq:4", "--bind", "0.0.0.0", "--log-level", "debug", "--set", "traceOn=false"]
    result = CliRunner().invoke(cli, ["serve", *options])
    assert result.exit_code == 0, result.output
    ((role, loaded, members),) = ran
    settings = loaded.settings
    assert (role, members) == (Role.SERVE, 0)
    assert settings.store_path_root_dir == tmp_path
    assert (settings.listen_port, settings.nameserver_port) == (1, 2)
    assert settings.name_server_addresses == (("other", 3),)
    assert settings.advertised == ("mq", 4)
    assert (settings.bind_address, settings.log_level, settings.trace_on) == ("0.0.0.0", "DEBUG", False)


def test_several_brokers_are_members_with_directories_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(run, "run", lambda *_, members: ran.append([member.name for member in members]))
    command = ["serve", "--data", str(tmp_path), "--set", "brokerName=mq", "--brokers"]
    assert CliRunner().invoke(cli, [*command, "3"]).exit_code == 0
    assert ran == [["mq-0", "mq-1", "mq-2"]]
    (tmp_path / "broker-2" / "commitlog").mkdir(parents=True)
    (tmp_path / "broker-2" / "commitlog" / f"{0:020d}").write_bytes(b"\0\0\1\0record")
    for count in ("1", "2"):
        result = CliRunner().invoke(cli, [*command, count])
        assert (result.exit_code, len(ran)) == (2, 1)
        assert "start with --brokers 3" in result.output
