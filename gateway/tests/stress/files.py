"""Every unit and every index entry of a directory, read from its files without the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gateway.store.disk.paths import is_index_name
from gateway.store.index.index_entries import tag_key
from gateway.tests.stress.account import Account
from wire.disk.consume_queue import UNIT, UNIT_BYTES, is_filler, is_written
from wire.disk.index_file import ENTRY, FIRST_ENTRY, HEAD_BYTES, IndexHead, IndexShape
from wire.disk.queue_extension import ExtensionUnit, is_address, position_of
from wire.message.java_hash import index_key_hash
from wire.message.record import StoredMessage, parse_record


class LogFiles:
    """Records by their place in the log; None for one that was deleted."""

    def __init__(self, directory: Path) -> None:
        self._files = {int(path.name): path.read_bytes() for path in sorted((directory / "commitlog").iterdir())}
        self._size = len(next(iter(self._files.values()), b"")) or 1

    def record(self, offset: int) -> StoredMessage | None:
        start = offset - offset % self._size
        data = self._files.get(start)
        return None if data is None else parse_record(data, offset - start)


class ExtensionFiles:
    """The extension of one queue, whose units keep the unique key of their message as a bit map."""

    def __init__(self, folder: Path) -> None:
        self._files = {int(path.name): path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}

    def unit(self, place: int) -> str:
        """The unique key that the unit at a place has."""
        start = max((start for start in self._files if start <= place), default=0)
        return ExtensionUnit.parse(self._files.get(start, b""), place - start).bitmap.decode()


def check_units(directory: Path, account: Account) -> int:
    """Compare each unit of each queue with the record that it leads to; how many were compared."""
    log, compared = LogFiles(directory), 0
    for name, queue in account.known.items():
        extension = ExtensionFiles(directory / "consumequeue_ext" / name[0] / str(name[1]))
        for offset, position, size, code in _units(directory / "consumequeue" / name[0] / str(name[1])):
            record = log.record(position)
            if record is None:
                continue
            compared += 1
            account.compare(name, queue, record, offset)
            if record.total_size != size:
                account.complain(f"{name} at {offset}: {size} bytes, the record has {record.total_size}")
            if is_address(code) and (kept := extension.unit(position_of(code))) != record.property_map["UNIQ_KEY"]:
                account.complain(f"{name} at {offset}: its extension unit is that of {kept}")
    return compared


def _units(folder: Path) -> Iterator[tuple[int, int, int, int]]:
    """(offset, place of the record, its size, tags code) of what stands in a queue's files."""
    for path in sorted(folder.iterdir()):
        first = int(path.name) // UNIT_BYTES
        for number, (position, size, code) in enumerate(UNIT.iter_unpack(path.read_bytes())):
            if is_written(position, size) and not is_filler(position, size):
                yield first + number, position, size, code


def check_index(directory: Path, shape: IndexShape, account: Account) -> int:
    """Compare each index entry with the keys of its message, and look for each message; how many were compared."""
    log, found = LogFiles(directory), set[int]()
    for path in sorted((directory / "index").iterdir()):
        data = path.read_bytes() if is_index_name(path.name) else b""
        for number in range(FIRST_ENTRY, IndexHead.parse(data[:HEAD_BYTES]).next_entry if data else 0):
            key_hash, offset, _, _ = ENTRY.unpack_from(data, shape.entry_position(number))
            record = log.record(offset)
            if record is not None:
                found.add(offset << 32 | key_hash)
                if key_hash not in _hashes(record):
                    account.complain(f"{path.name} entry {number}: {record.topic} {record.body[:40]!r} has no such key")
    for number, (_, offset, _) in account.places.items():
        topic, _ = account.name_of(number)
        if log.record(offset) is not None and offset << 32 | index_key_hash(topic, f"u{number}") not in found:
            account.complain(f"message {number} of {topic} at {offset} is not in the index")
    return len(found)


def _hashes(record: StoredMessage) -> set[int]:
    words = record.property_map
    keys = [words["UNIQ_KEY"], *words["KEYS"].split(" "), tag_key(words["TAGS"])]
    return {index_key_hash(record.topic, key) for key in keys}
