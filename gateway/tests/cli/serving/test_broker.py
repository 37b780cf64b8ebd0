"""``broker`` runs with a name server elsewhere, and not without one."""

import pytest
from click.testing import CliRunner

from gateway.cli.main import cli
from gateway.cli.serving import run
from gateway.settings.files.load import Loaded, Role


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["-n", "ns:9876"], {}),
        (["-n", "ns:9876", "--supervised"], {}),
        (["--set", "namesrvAddr=ns:9876"], {}),
        ([], {"NAMESRV_ADDR": "ns:9876"}),
        ([], {"ROCKETMQ_GATEWAY_NAMESRV_ADDR": "ns:9876"}),
    ],
)
def test_the_name_server_may_be_given_in_several_ways(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], environment: dict[str, str]
) -> None:
    ran: list[tuple[Role, Loaded, bool]] = []
    monkeypatch.setattr(run, "run", lambda role, loaded, *, supervised: ran.append((role, loaded, supervised)))
    result = CliRunner(env={"NAMESRV_ADDR": None, **environment}).invoke(cli, ["broker", *arguments])
    assert result.exit_code == 0, result.output
    ((role, loaded, supervised),) = ran
    assert (role, loaded.settings.name_server_addresses) == (Role.BROKER, (("ns", 9876),))
    assert supervised is ("--supervised" in arguments)


def test_without_a_name_server_nothing_runs() -> None:
    result = CliRunner(env={"NAMESRV_ADDR": None}).invoke(cli, ["broker"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "or use the command serve, which brings its own" in result.stderr
