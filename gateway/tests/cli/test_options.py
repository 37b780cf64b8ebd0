"""Options are another way to write settings."""

from pathlib import Path

import pytest

from gateway.cli.options import OPTIONS, Sources, load_options
from gateway.settings import Settings
from gateway.settings.declare import declarations
from gateway.settings.files.load import Role


def test_every_option_stands_for_a_setting_that_exists() -> None:
    assert {key for key, _, _ in OPTIONS.values()} <= set(declarations(Settings))


def test_an_option_wins_over_set_and_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETMQ_GATEWAY_LISTEN_PORT", "1")
    loaded = load_options(Role.SERVE, Sources(assignments=("listenPort=2",)), port="3", advertise=None)
    assert loaded.settings.listen_port == 3
    assert loaded.sources == {"listenPort": "--port"}


def test_a_relative_data_directory_is_made_absolute() -> None:
    assert load_options(Role.SERVE, Sources(), data="var").settings.store_path_root_dir == Path.cwd() / "var"
