"""One JSON file that is always replaced as a whole, with the content before it kept as ``NAME.bak``.

Loading falls back to ``NAME.bak`` as upstream's ``ConfigManager`` does. Writing is safer than upstream's: the
new content is on disk before it takes the old one's name, so a kill at any point leaves a readable file.
What the content means is the caller's business.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gateway.errors import GatewayError
from gateway.telemetry.logs import EventLog
from wire.errors import RemoteError

T = TypeVar("T")

MAX_FILE_BYTES = 1 << 30
"""A larger file is refused at start instead of filling the memory."""

log = EventLog("metadata")


class JsonFile:
    """The file; ``load`` and ``write`` block and may run in any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.backup_path = path.with_name(path.name + ".bak")
        self._temporary_path = path.with_name(path.name + ".tmp")
        self._lock = threading.Lock()
        self._newest = 0
        self._keep_backup = False

    def load(self, parse: Callable[[bytes], T]) -> T | None:
        """The parsed content, or None when there is none; of ``NAME.bak`` when ``NAME`` is of no use.

        :param parse: raises a kind of ``wire.errors.RemoteError`` for content it cannot read.
        :raises GatewayError: there are files but none can be read: to start without them would lose them.
        """
        faults: list[str] = []
        for path in (self.path, self.backup_path):
            content = _read(path)
            if not content.strip():
                if path == self.path and path.exists():
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
            return value
        if faults:
            raise GatewayError(f"cannot read {'; '.join(faults)}; repair or remove the file")
        return None

    def write(self, content: bytes, sequence: int = 0) -> None:
        """Replace the file; it is on disk when this returns.

        :param sequence: orders writes of several threads: content older than what is there is dropped.
            0 means "newer than everything before".
        :raises OSError: the old content is still there.
        """
        with self._lock:
            if sequence == 0:
                sequence = self._newest + 1
            if sequence < self._newest:
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._temporary_path.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            self._back_up()
            self._temporary_path.replace(self.path)
            _sync_directory(self.path.parent)
            self._newest = sequence
            self._keep_backup = False

    def _back_up(self) -> None:
        """Give the present content the backup's name, unless the backup is the better of the two."""
        if self._keep_backup or not self.path.exists():
            return
        linked = self.backup_path.with_name(self.backup_path.name + ".tmp")
        linked.unlink(missing_ok=True)
        try:
            os.link(self.path, linked)
        except OSError:  # a file system without hard links
            shutil.copyfile(self.path, linked)
        linked.replace(self.backup_path)


def _read(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise GatewayError(f"{path} has {size} bytes, the limit is {MAX_FILE_BYTES}")
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise GatewayError(f"cannot read {path}: {error.strerror or error}") from error


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
