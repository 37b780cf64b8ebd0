"""Values that follow from the settings of the store."""

from pathlib import Path

import pytest

from gateway.settings.store import (
    CONSUME_QUEUE_UNIT_BYTES,
    StoreSettings,
    delay_levels_expected,
    hours_expected,
    one_path_expected,
)
from wire.disk import consume_queue, queue_extension


def test_the_commit_log_is_below_the_data_directory_unless_set() -> None:
    root = Path("/data")
    assert StoreSettings(store_path_root_dir=root).commit_log_directory == Path("/data/commitlog")
    elsewhere = StoreSettings(store_path_root_dir=root, store_path_commit_log="$HOME/log")
    assert elsewhere.commit_log_directory == Path.home() / "log"


@pytest.mark.parametrize(("size", "rounded"), [(20, 20), (21, 40), (6_000_000, 6_000_000), (59, 60)])
def test_a_consume_queue_file_holds_whole_messages(size: int, rounded: int) -> None:
    assert StoreSettings(mapped_file_size_consume_queue=size).consume_queue_file_bytes == rounded


def test_old_files_are_deleted_at_several_hours() -> None:
    assert StoreSettings().delete_hours == {4}
    assert StoreSettings(delete_when="04;16").delete_hours == {4, 16}


@pytest.mark.parametrize(
    ("text", "good"), [("04", True), ("4;16;23", True), ("24", False), ("", False), ("4,5", False)]
)
def test_hours_are_hours_of_the_day(text: str, good: bool) -> None:
    assert (hours_expected(text) is None) is good


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("1s", True),
        ("1s 5m 2h 1d", True),
        ("", False),
        ("1", False),
        ("0s", False),
        ("1s  5s", False),
        ("1w", False),
    ],
)
def test_delay_levels_are_durations(text: str, good: bool) -> None:
    assert (delay_levels_expected(text) is None) is good


def test_there_is_one_commit_log_directory() -> None:
    assert one_path_expected("/a") is None
    assert one_path_expected("/a,/b") == "a single path (several commit log directories are not supported)"


def test_files_of_queues_are_as_large_as_their_formats_say() -> None:
    settings = StoreSettings()
    assert settings.mapped_file_size_consume_queue == consume_queue.FILE_BYTES
    assert settings.mapped_file_size_consume_queue_ext == queue_extension.FILE_BYTES
    assert CONSUME_QUEUE_UNIT_BYTES == consume_queue.UNIT_BYTES
