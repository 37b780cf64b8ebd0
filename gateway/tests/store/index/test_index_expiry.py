"""Index files whose messages are all deleted, and those that look as if they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.store.message_store import MessageStore
from gateway.tests.store.keyed_messages import EVER, bodies_with_key
from gateway.tests.store.small_store import Disk, killed, message, opened, put, remove_first, small_store
from wire.disk.index_file import FIRST_ENTRY


def test_index_files_that_expired_are_not_taken_for_lost(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(200):
        put(store, message(b"%d" % number * 100, KEYS=f"k{number} x y"))
    store.flush()
    for _ in range(3):
        remove_first(store._log.files)
    store._checkpoint.begin_log(store.min_commit_log_offset)
    assert store._index.remove_expired(store.min_commit_log_offset) > 0
    again = small_store(killed(tmp_path))  # the list of names is older than the deletion
    assert not [remark for remark in again.open().remarks if "index file" in remark]


def expired_index(directory: Path, disk: Disk) -> MessageStore:
    """A store whose first index files know deleted messages only; none of them is open."""
    store = opened(directory)
    for number in range(200):
        put(store, message(b"%d" % number * 100, KEYS=f"k{number} x y"))
    store.close()
    store = opened(directory, disk=disk)
    for _ in range(3):
        remove_first(store._log.files)
    store._checkpoint.begin_log(store.min_commit_log_offset)
    for file in store._index.index_files:
        file._open = None
    return store


def test_a_search_that_meets_an_index_file_as_it_expires_finds_what_is_left(tmp_path: Path) -> None:
    store = expired_index(tmp_path, Disk())
    low = store.min_commit_log_offset
    search = store._index.find("T", "x", 0, EVER)
    first = next(search)
    assert store._index.remove_expired(low) > 0
    found = [first, *search]  # goes on to the files that it saw when it began
    assert max(found) > low
    assert sum(offset >= low for offset in found) > 50


def test_nobody_begins_to_read_an_index_file_that_is_being_deleted(tmp_path: Path) -> None:
    found: list[list[int]] = []

    class Asking(Disk):
        def unlink(self, path: Path) -> None:
            super().unlink(path)
            if path.parent.name == "index":
                found.append(list(store._index.find("T", "x", 0, EVER)))

    store = expired_index(tmp_path, Asking())
    count = store._index.remove_expired(store.min_commit_log_offset)
    assert len(found) == count > 0
    assert all(len(offsets) > 50 for offsets in found)


def test_an_index_file_that_is_lost_is_no_file_that_expired(tmp_path: Path) -> None:
    store = expired_index(tmp_path, Disk())
    lost = store._index.index_files[0]
    lost.path.unlink()
    with pytest.raises(FileNotFoundError):
        list(store._index.find("T", "x", 0, EVER))


def test_an_index_file_that_cannot_be_deleted_is_deleted_later(tmp_path: Path) -> None:
    disk = Disk()
    store = expired_index(tmp_path, disk)
    before = len(list((tmp_path / "index").iterdir()))
    disk.fail("unlink", "/index/")
    with pytest.raises(OSError, match="Input/output error"):
        store._index.remove_expired(store.min_commit_log_offset)
    assert len(list((tmp_path / "index").iterdir())) == before
    disk.fault = None
    assert store._index.remove_expired(store.min_commit_log_offset) > 1
    assert len(list((tmp_path / "index").iterdir())) == len(store._index.index_files)


def test_a_file_is_kept_for_the_keys_of_messages_behind_the_last_one_with_a_tag(tmp_path: Path) -> None:
    """Entries of tags come behind those of the keys of later messages that were indexed with them."""
    store = opened(tmp_path)
    put(store, message(b"first", KEYS="k", TAGS="x"))
    for number in range(20):
        put(store, message(b"%d" % number * 1000, KEYS=f"k{number}"))
    room = store._index._shape.entries - FIRST_ENTRY - 22
    put(store, message(b"full", KEYS=" ".join(f"f{number}" for number in range(room))))
    assert bodies_with_key(store, "k19") == [b"19" * 1000]
    put(store, message(b"last", KEYS="l"))
    assert bodies_with_key(store, "l") == [b"last"]
    assert len(store._index.index_files) == 2
    assert store._index.index_files[0].is_full, "with the tag as its last entry"
    store.flush()
    remove_first(store._log.files)
    store._checkpoint.begin_log(store.min_commit_log_offset)
    store._index.remove_expired(store.min_commit_log_offset)
    assert bodies_with_key(store, "k19") == [b"19" * 1000]
