"""The progress of each delay level: ``delayOffset.json``, shared with Apache RocketMQ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from gateway.in_thread import InThread
from gateway.metadata.saved.config_disk import ConfigDisk
from gateway.metadata.saved.json_file import JsonFile
from gateway.metadata.saved.write_behind import WriteBehind
from wire.disk.config_json import DelayOffsetsFile


class DelayOffsets:
    """The file with the offsets of the delay levels.

    :param path: ``config/delayOffset.json`` of the data directory.
    """

    def __init__(self, path: Path, in_thread: InThread, disk: ConfigDisk | None = None) -> None:
        self._file = JsonFile(path, disk)
        self._loaded = DelayOffsetsFile()
        self._current: Callable[[], Mapping[int, int]] = dict
        self._writer = WriteBehind(self._file, self._snapshot, in_thread)

    def load(self) -> Mapping[int, int]:
        """Return the map of level to next offset; blocks, so call this only before the broker serves.

        :raises GatewayError: there is a file, but neither the file nor its backup can be read.
        """
        self._loaded = self._file.load(DelayOffsetsFile.parse) or DelayOffsetsFile()
        return self._loaded.offset_table

    def follow(self, current: Callable[[], Mapping[int, int]]) -> None:
        """Save the offsets that this function returns from now on."""
        self._current = current

    def persist(self) -> None:
        """Write the offsets if they moved since the last write, or if the last write failed."""
        if self._current() != self._loaded.offset_table:
            self._writer.touch()
        self._writer.save()

    def persist_now(self) -> None:
        """Write the offsets and wait for the write: for the end of the process."""
        if self._current() != self._loaded.offset_table:
            self._writer.touch()
        self._writer.save_now()

    def _snapshot(self) -> bytes:
        loaded = self._loaded
        self._loaded = DelayOffsetsFile(dict(self._current()), loaded.data_version, loaded.extra)
        return self._loaded.build()
