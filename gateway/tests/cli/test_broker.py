"""``broker`` runs with a name server elsewhere, and not without one."""

import pytest
from click.testing import CliRunner

from gateway.cli import run
from gateway.cli.main import cli
from gateway.settings.load import Loaded, Role


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["-n", "ns:9876"], {}),
        (["--set", "namesrvAddr=ns:9876"], {}),
        ([], {"NAMESRV_ADDR": "ns:9876"}),
        ([], {"ROCKETMQ_GATEWAY_NAMESRV_ADDR": "ns:9876"}),
    ],
)
def test_the_name_server_may_be_given_in_several_ways(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], environment: dict[str, str]
) -> None:
    ran: list[tuple[Role, Loaded]] = []
    monkeypatch.setattr(run, "run", lambda role, loaded: ran.append((role, loaded)))
    result = CliRunner(env={"NAMESRV_ADDR": None, **environment}).invoke(cli, ["broker", *arguments])
    assert result.exit_code == 0, result.output
    ((role, loaded),) = ran
    assert (role, loaded.settings.name_server_addresses) == (Role.BROKER, (("ns", 9876),))


def test_without_a_name_server_nothing_runs() -> None:
    result = CliRunner(env={"NAMESRV_ADDR": None}).invoke(cli, ["broker"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "or use the command serve, which brings its own" in result.stderr
