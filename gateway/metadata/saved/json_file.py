"""A JSON file that is always replaced as a whole, with its previous content kept as ``NAME.bak``.

Loading falls back to ``NAME.bak``, as upstream's ``ConfigManager`` does. Writing is safer than upstream's: the new
content is on disk before it takes the old file's name. So a kill at any point leaves a readable file. The caller knows
what the content means.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gateway.errors import GatewayError
from gateway.metadata.saved.config_disk import ConfigDisk, write_anew
from gateway.telemetry.logs import EventLog
from wire.errors import RemoteError

T = TypeVar("T")

MAX_FILE_BYTES = 1 << 30
"""The largest file that is loaded; a larger file is refused at start instead of filling the memory."""

log = EventLog("metadata")


class JsonFile:
    """The file; ``load`` and ``write`` block and may run in any thread.

    :param disk: the disk of the file; None for the operating system's files.
    """

    def __init__(self, path: Path, disk: ConfigDisk | None = None) -> None:
        self._disk = ConfigDisk() if disk is None else disk
        self.path = path
        self.backup_path = path.with_name(path.name + ".bak")
        self._temporary_path = path.with_name(path.name + ".tmp")
        self._lock = threading.Lock()
        self._newest = 0
        self._keep_backup = False
        self.size = 0
        """The size in bytes of the content that was loaded or written last."""

    def load(self, parse: Callable[[bytes], T]) -> T | None:
        """Return the parsed content, or None if there is none; use ``NAME.bak`` if ``NAME`` is unusable.

        :param parse: raises a kind of ``wire.errors.RemoteError`` for content it cannot read.
        :raises GatewayError: there are files, but none can be read: a start without them would lose them.
        """
        faults: list[str] = []
        for path in (self.path, self.backup_path):
            content = self._read(path)
            if not content.strip():
                if path == self.path and self._disk.exists(path):
                    faults.append(f"{path} is empty")
                continue
            try:
                value = parse(content)
            except RemoteError as error:
                faults.append(f"{path}: {error}")
                continue
            if path == self.backup_path:
                self._keep_backup = True
                fault = faults[0] if faults else f"{self.path} is missing"
                log.warning("configuration file restored from its backup", path=path, fault=fault)
            self.size = len(content)
            return value
        if faults:
            raise GatewayError(f"cannot read {'; '.join(faults)}; repair or remove the file")
        return None

    def write(self, content: bytes, sequence: int = 0) -> None:
        """Replace the file; the new content is on disk when this method returns.

        :param sequence: orders the writes of several threads: content older than the file's is dropped. 0 means "newer
            than everything before".
        :raises OSError: the old content is still there.
        """
        with self._lock:
            if sequence == 0:
                sequence = self._newest + 1
            if sequence < self._newest:
                return
            disk, directory = self._disk, self.path.parent
            disk.make_directory(directory)
            write_anew(disk, self._temporary_path, content)
            self._back_up()
            disk.rename(self._temporary_path, self.path)
            disk.fsync_directory(directory)
            if self._newest == 0:  # the directory may be new itself: its own name has to be on disk as well
                disk.fsync_directory(directory.parent)
            self._newest = sequence
            self.size = len(content)
            self._keep_backup = False

    def _back_up(self) -> None:
        """Give the present content the backup's name, unless the backup is the better file."""
        disk = self._disk
        if self._keep_backup or not disk.exists(self.path):
            return
        linked = self.backup_path.with_name(self.backup_path.name + ".tmp")
        disk.unlink(linked)
        try:
            disk.link(self.path, linked)
        except OSError:  # a file system without hard links
            disk.copy(self.path, linked)
        disk.rename(linked, self.backup_path)

    def _read(self, path: Path) -> bytes:
        try:
            size = self._disk.file_size(path)
            if size > MAX_FILE_BYTES:
                raise GatewayError(f"{path} has {size} bytes, the limit is {MAX_FILE_BYTES}")
            return self._disk.read(path)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise GatewayError(f"cannot read {path}: {error.strerror or error}") from error
