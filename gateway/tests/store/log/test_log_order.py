"""A commit log file under another one's name: the start is refused, and nothing is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.store.errors import ForeignFile
from gateway.tests.store.small_store import LOG_FILE_BYTES, bodies, content, log_file, opened, overwrite, put


def closed(directory: Path) -> list[bytes]:
    """A store with three log files, closed properly."""
    store = opened(directory)
    while store.max_commit_log_offset < 2 * LOG_FILE_BYTES + 1_000:
        put(store, b"x" * 300)
    sent = bodies(store)
    store.close()
    return sent


def exchange(first: Path, second: Path) -> None:
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)


@pytest.mark.parametrize("numbers", [(0, 1), (1, 2), (0, 2)])
def test_exchanged_files_refuse_the_start(tmp_path: Path, numbers: tuple[int, int]) -> None:
    sent = closed(tmp_path)
    pair = [log_file(tmp_path, number * LOG_FILE_BYTES) for number in numbers]
    exchange(*pair)
    before = content(tmp_path)
    with pytest.raises(ForeignFile) as told:
        opened(tmp_path)
    assert str(told.value).startswith(
        f"{pair[0]} begins with the records of commit log offset {pair[1].name.lstrip('0')}"
    )
    assert "give each file its own name back" in str(told.value)
    assert content(tmp_path) == before
    exchange(*pair)
    assert bodies(opened(tmp_path)) == sent


def test_a_copy_behind_the_log_refuses_the_start(tmp_path: Path) -> None:
    closed(tmp_path)
    log_file(tmp_path, 3 * LOG_FILE_BYTES).write_bytes(log_file(tmp_path).read_bytes())
    with pytest.raises(ForeignFile, match="offset 0: it is the file 00000000000000000000, or a copy"):
        opened(tmp_path)


@pytest.mark.parametrize("byte", [28, 33, 4])
def test_one_record_that_says_another_place_is_damage_and_the_server_starts(tmp_path: Path, byte: int) -> None:
    sent = closed(tmp_path)
    overwrite(log_file(tmp_path, LOG_FILE_BYTES), byte, b"\x40")
    store = opened(tmp_path)
    assert len(bodies_that_can_be_read(store, len(sent))) == len(sent) - 1


def bodies_that_can_be_read(store: object, count: int) -> list[object]:
    results = [store.get_messages("T", 0, number, 1, 1) for number in range(count)]  # type: ignore[attr-defined]
    return [result for result in results if result.parts]


def test_an_empty_log_and_a_file_of_one_record_are_in_order(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.close()
    store = opened(tmp_path)
    put(store, b"x")
    store.close()
    assert bodies(opened(tmp_path)) == [b"x"]
