"""Directories whose queues keep tags codes in ``consumequeue_ext``, as Apache RocketMQ 5.5.0 wrote one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import Result

from gateway.tests.store.apache_directory import MESSAGES, SETTINGS, unpacked
from gateway.tests.store.queues.test_extended_units import ALL_RED, EXTENSION, numbers
from gateway.tests.store.small_store import opened, overwrite
from gateway.tests.store_tool import small_directory
from wire.disk.consume_queue import UNIT
from wire.disk.queue_extension import is_address


def run(*arguments: str | Path) -> Result:
    """The command with the delay levels that the writing broker had."""
    return small_directory.run(*arguments, "--set", "messageDelayLevel=1s 3000s")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return unpacked(tmp_path / "apache")


def tags_code_at(directory: Path, offset: int) -> int:
    data = (directory / "consumequeue/Ext/0" / f"{0:020d}").read_bytes()
    code: int = UNIT.unpack_from(data, offset * UNIT.size)[2]
    return code


def test_a_directory_with_extensions_is_sound(directory: Path) -> None:
    result = run("verify", directory)
    assert result.exit_code == 0, result.output
    assert f"{MESSAGES + 1} messages" in result.output


@pytest.mark.parametrize("command", ["import", "export"])
def test_a_copy_takes_the_extensions_along(directory: Path, tmp_path: Path, command: str) -> None:
    target = tmp_path / "copy"
    result = run(command, directory, target)
    assert result.exit_code == 0, result.output
    assert "needs the setting enableConsumeQueueExt=true" in result.output
    assert "needs the setting mappedFileSizeConsumeQueueExt=4096" in result.output
    shutil.rmtree(directory)
    assert run("verify", target).exit_code == 0
    assert numbers(opened(target, SETTINGS)) == ALL_RED


def test_damage_of_an_extension_is_found_and_mended(directory: Path) -> None:
    overwrite(directory / EXTENSION, 20, b"\xff\xff")
    found = run("verify", directory)
    assert found.exit_code == 1
    assert "unit 1 has no tags code: consumequeue_ext is missing or damaged there" in found.output
    assert run("repair", "--apply", directory).exit_code == 0
    assert run("verify", directory).exit_code == 0
    assert not is_address(tags_code_at(directory, 1))
    assert not list((directory / EXTENSION).parent.iterdir())
    assert numbers(opened(directory, SETTINGS)) == ALL_RED


def test_a_lost_extension_is_told_once_for_all_its_units(directory: Path) -> None:
    shutil.rmtree(directory / "consumequeue_ext")
    found = run("verify", directory)
    assert found.exit_code == 1
    assert f"units 0 … {MESSAGES - 1} have no tags code" in found.output


def test_an_extension_that_says_another_tag_is_damage(directory: Path) -> None:
    overwrite(directory / EXTENSION, 22, (12345).to_bytes(8, "big"))
    found = run("verify", directory)
    assert found.exit_code == 1
    assert "tags code 12345 instead of 98619139" in found.output


def test_a_file_in_place_of_all_extensions_is_a_misfit(directory: Path) -> None:
    shutil.rmtree(directory / "consumequeue_ext")
    (directory / "consumequeue_ext").write_bytes(b"x")
    assert "consumequeue_ext" in run("verify", directory).output
