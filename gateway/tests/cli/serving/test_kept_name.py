"""A directory goes on under its first name, wherever it is served, unless brokerName says another (point 18)."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli.main import cli
from gateway.cli.serving import run
from gateway.cli.serving.kept_name import with_kept_name
from gateway.errors import GatewayError
from gateway.metadata.saved.broker_name import FILE_NAME, keep_name, kept_name
from gateway.settings.files.load import Loaded, Role, load_settings
from gateway.tests.broker.whole_broker import WholeBroker


@pytest.fixture(autouse=True)
def _another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "node", lambda: "host-2")


def loaded(root: Path, *assignments: str) -> Loaded:
    assignments = (f"storePathRootDir={root}", *assignments)
    return with_kept_name(load_settings(Role.SERVE, assignments=assignments))


def test_point_18_a_container_made_anew_goes_on_under_the_name_of_the_first(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", broker_name="host-1")
    broker.stop()
    found = loaded(tmp_path / "store")
    assert found.settings.broker_name == "host-1"
    assert found.sources["brokerName"] == f"{tmp_path}/store/{FILE_NAME}"
    assert found.notices == ()
    (remark,) = found.remarks
    assert remark.startswith("the broker is called host-1, as ")
    assert "and not host-2 after this machine" in remark
    WholeBroker(tmp_path / "store", broker_name=found.settings.broker_name).stop()
    assert loaded(tmp_path / "store").settings.broker_name == "host-1"


def test_a_directory_of_an_earlier_version_keeps_its_name_too(tmp_path: Path) -> None:
    WholeBroker(tmp_path / "store", broker_name="host-1").stop()
    (tmp_path / "store" / FILE_NAME).unlink()
    assert loaded(tmp_path / "store").settings.broker_name == "host-1"


def test_a_new_directory_has_the_name_of_its_host(tmp_path: Path) -> None:
    found = loaded(tmp_path)
    assert found.settings.broker_name == "host-2"
    assert (found.notices, found.remarks) == ((), ())
    assert list(tmp_path.iterdir()) == []
    keep_name(tmp_path, "host-2")
    assert loaded(tmp_path).remarks == ()


def test_point_18_a_name_that_is_set_wins_is_told_of_and_is_remembered(tmp_path: Path) -> None:
    keep_name(tmp_path, "host-1")
    found = loaded(tmp_path, "brokerName=mq-a")
    assert found.settings.broker_name == "mq-a"
    (notice,) = found.notices
    assert notice.startswith(f"brokerName=mq-a (--set): {tmp_path} was served as host-1 so far")
    assert notice.endswith("set brokerName=host-1 to go on as before")
    WholeBroker(tmp_path, broker_name="mq-a").stop()
    assert loaded(tmp_path, "brokerName=mq-a").notices == ()
    assert loaded(tmp_path).settings.broker_name == "mq-a"


def test_a_server_that_finds_the_directory_in_use_does_not_rename_it(tmp_path: Path) -> None:
    first = WholeBroker(tmp_path, broker_name="mq-a")
    with pytest.raises(GatewayError, match="in use"):
        WholeBroker(tmp_path, broker_name="mq-b")
    first.stop()
    kept = kept_name(tmp_path)
    assert kept is not None
    assert kept.name == "mq-a"


def test_a_damaged_name_stops_the_start_unless_one_is_set(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"\0\0\0")
    with pytest.raises(GatewayError, match="write the name into it, or set brokerName"):
        loaded(tmp_path)
    assert loaded(tmp_path, "brokerName=mq-a").notices == ()
    WholeBroker(tmp_path, broker_name="mq-a").stop()
    assert loaded(tmp_path).settings.broker_name == "mq-a"


def test_the_commands_use_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keep_name(tmp_path, "host-1")
    ran: list[Loaded] = []
    monkeypatch.setattr(run, "run", lambda _, loaded, **__: ran.append(loaded))
    for command in (["serve"], ["broker", "-n", "ns:9876"]):
        result = CliRunner().invoke(cli, [*command, "--data", str(tmp_path)])
        assert result.exit_code == 0, result.output
    assert [found.settings.broker_name for found in ran] == ["host-1", "host-1"]
    shown = CliRunner().invoke(cli, ["config", "--data", str(tmp_path), "--changed"]).stdout
    row = next(line for line in shown.splitlines() if line.startswith("brokerName"))
    assert row.split()[1:3] == ["host-1", str(tmp_path / FILE_NAME)]
    assert "brokerName" not in CliRunner().invoke(cli, ["config", "--for", "nameserver", "--changed"]).stdout


def test_several_brokers_keep_the_names_of_their_directories(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[tuple[list[str], tuple[str, ...]]] = []
    monkeypatch.setattr(
        run, "run", lambda _, loaded, *, members: ran.append(([member.name for member in members], loaded.remarks))
    )
    for index, name in enumerate(["host-1", "host-1-1"]):
        (tmp_path / f"broker-{index}").mkdir()
        keep_name(tmp_path / f"broker-{index}", name)
    command = ["serve", "--data", str(tmp_path), "--brokers", "3"]
    assert CliRunner().invoke(cli, command).exit_code == 0
    assert CliRunner().invoke(cli, [*command, "--set", "brokerName=mq"]).exit_code == 0
    (kept, remarks), (told, none) = ran
    assert kept == ["host-1", "host-1-1", "host-2-2"]
    assert len(remarks) == 2
    assert (told, none) == (["mq-0", "mq-1", "mq-2"], ())


def test_a_copied_directory_of_several_is_refused_instead_of_served_under_one_name(tmp_path: Path) -> None:
    for index in range(2):
        (tmp_path / f"broker-{index}").mkdir()
        keep_name(tmp_path / f"broker-{index}", "host-1-0")
    result = CliRunner().invoke(cli, ["serve", "--data", str(tmp_path), "--brokers", "2"])
    assert result.exit_code == 2
    assert "broker-0 and " in result.output
    assert "would both be called host-1-0" in result.output
