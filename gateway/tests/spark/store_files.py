"""A store directory with records of several queues, as a broker leaves it: the last file of the log is open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from gateway.tests.spark.messages import CLIENT, HOST, STORED_AT_MS
from wire.disk.consume_queue import build_unit
from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage, build_record
from wire.message.record_layout import END_OF_FILE_BYTES, MAGIC_BLANK

FILE_BYTES = 4096
UNITS_IN_FILE = 16


class StoreFiles:
    """Writes messages one by one; ``records`` has them by topic and queue."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.records: dict[tuple[str, int], list[bytes]] = {}
        self._end = 0

    def fill(self, names: Iterable[tuple[str, int]], body: bytes = b"body", **properties: str) -> None:
        """Append a message to each of the queues, in their order."""
        for topic, queue_id in names:
            self._append(topic, queue_id, body, properties or {"TAGS": "paid", "UNIQ_KEY": "ID"})

    def _append(self, topic: str, queue_id: int, body: bytes, properties: Mapping[str, str]) -> None:
        its = self.records.setdefault((topic, queue_id), [])
        at_ms = STORED_AT_MS + len(its)
        raw = build_properties(properties)
        message = OutgoingMessage(topic, queue_id, 0, 0, at_ms, CLIENT, HOST, 0, 0, body, raw)
        size = len(build_record(message, len(its), self._end, at_ms))
        left = FILE_BYTES - self._end % FILE_BYTES
        if size + END_OF_FILE_BYTES > left:
            blank = left.to_bytes(4, "big") + (MAGIC_BLANK & 0xFFFFFFFF).to_bytes(4, "big")
            self._write("commitlog", self._end, FILE_BYTES, blank)
            self._end += left
        record = build_record(message, len(its), self._end, at_ms)
        self._write("commitlog", self._end, FILE_BYTES, record)
        unit = build_unit(self._end, size, 0)
        self._write(f"consumequeue/{topic}/{queue_id}", len(its) * len(unit), UNITS_IN_FILE * len(unit), unit)
        self._end += size
        its.append(record)

    def _write(self, folder: str, position: int, file_bytes: int, data: bytes) -> None:
        start = position // file_bytes * file_bytes
        path = self.root / folder / f"{start:020}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(bytes(file_bytes))
        with path.open("r+b") as file:
            file.seek(position - start)
            file.write(data)
