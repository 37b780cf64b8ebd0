"""The version is what the package says it is."""

from click.testing import CliRunner

from gateway.cli.main import cli
from gateway.cli.version import VERSION, is_compiled


def test_point_21_the_version_says_whether_compiled_code_runs() -> None:
    said = CliRunner().invoke(cli, ["version"]).output
    assert said.endswith(f", {'compiled' if is_compiled() else 'interpreted'})\n")


def test_the_version_is_printed_with_the_version_of_python() -> None:
    result = CliRunner().invoke(cli, ["version"])
    assert result.exit_code == 0
    assert result.output.startswith(f"rocketmq-gateway {VERSION} (Python 3.")
