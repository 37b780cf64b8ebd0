"""The command ``store``: help that teaches, and nothing of it in a server's start. Its work: ``tests/store_tool``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli.main import cli

COMMANDS = ["inspect", "verify", "repair", "dump", "export", "import", "migrate-transactions"]


def test_its_help_names_every_command_and_says_what_is_changed() -> None:
    result = CliRunner().invoke(cli, ["store", "--help"])
    assert result.exit_code == 0
    for command in COMMANDS:
        assert f"\n  {command} " in result.output
        assert f"rocketmq-gateway store {command}" in result.output
    assert "Only repair --apply and the target of a copy are written" in result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_has_examples_and_fits_a_terminal(command: str) -> None:
    result = CliRunner().invoke(cli, ["store", command, "-h"])
    assert result.exit_code == 0
    assert f"Examples:\n    rocketmq-gateway store {command} " in result.output
    assert max(map(len, result.output.splitlines())) <= 120


def test_a_wrong_setting_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["store", "verify", str(tmp_path), "--set", "maxIndexNum=x"])
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: maxIndexNum='x' (--set): expected an integer")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [["serve", "--prot"], ["version"]])
def test_another_command_loads_nothing_of_it(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom gateway.cli.main import main\n"
        f"sys.argv = ['rocketmq-gateway', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "assert not [name for name in sys.modules if name == 'gateway.cli.store' or 'store_tool' in name]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_verifying_loads_no_reactor(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    code = (
        "import sys\nfrom gateway.cli.main import main\n"
        f"sys.argv = ['rocketmq-gateway', 'store', 'verify', {str(tmp_path)!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0, end.code\n"
        "assert 'twisted.internet' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_the_help_of_verify_says_what_no_checksum_covers() -> None:
    text = " ".join(CliRunner().invoke(cli, ["store", "verify", "--help"]).output.split())
    assert "The format has a checksum of the body only: in fields that nothing repeats (flag, system flag," in text
