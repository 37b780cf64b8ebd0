"""Which state store a directory uses: one small file, so that pending transactions are never looked for in another.

    transaction/state-store     key=value lines: store, first (half-queue offset), identity

Half messages below ``first`` were settled when the store began. A directory without the file uses the op records
(``queue``), as Apache RocketMQ's do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from gateway.errors import GatewayError
from gateway.settings.transaction import TransactionStateStore
from gateway.store.files import FileLayer, RealFiles

FILE_NAME = "state-store"
MAX_BYTES = 4_096
OTHERS = "tablemark", "transactions.db"
"""What a table and SQLite leave. The file is written before them, so without it they are left over from a loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The content; ``identity`` names the directory to a database."""

    store: TransactionStateStore = TransactionStateStore.QUEUE
    first: int = 0
    identity: str = ""


class RememberedStore:
    """The file.

    :param directory: ``transaction`` below the store's directory.
    :param make_identity: a name that no other directory has.
    """

    def __init__(
        self, directory: Path, *, files: FileLayer | None = None, make_identity: Callable[[], str] | None = None
    ) -> None:
        self._files: FileLayer = RealFiles() if files is None else files
        self._make_identity = make_identity or (lambda: token_hex(8))
        self.path = directory / FILE_NAME

    def load(self) -> Remembered:
        """What the file says; a directory without it gets an identity with the next ``save``.

        :raises GatewayError: it cannot be understood, or is missing although another store than the queue was used.
        :raises OSError: it cannot be read.
        """
        if not self._files.exists(self.path):
            for name in OTHERS:
                if self._files.exists(self.path.with_name(name)):
                    raise GatewayError(
                        f"{self.path} is missing, but there is {name}, which only another transaction state store than "
                        "'queue' leaves: restore it from a copy of the directory"
                    )
            return Remembered(identity=self._make_identity())
        fd = self._files.open(self.path)
        try:
            text = self._files.pread(fd, MAX_BYTES, 0).decode("utf-8", "replace")
        finally:
            self._files.close(fd)
        try:
            values = dict(line.split("=", 1) for line in text.splitlines())
            return Remembered(
                store=TransactionStateStore(values["store"]), first=int(values["first"]), identity=values["identity"]
            )
        except (ValueError, KeyError) as error:
            raise GatewayError(f"{self.path} does not say which transaction state store is used: {error}") from error

    def save(self, remembered: Remembered) -> None:
        """Replace the file; on disk when this returns.

        :raises OSError: it cannot be written.
        """
        files, fresh = self._files, self.path.with_name(f"{FILE_NAME}.new")
        files.make_directory(self.path.parent)
        text = f"store={remembered.store}\nfirst={remembered.first}\nidentity={remembered.identity}\n"
        fd = files.open(fresh, create=True)
        try:
            files.truncate(fd, 0)
            files.pwrite(fd, text.encode(), 0)
            files.fdatasync(fd)
        finally:
            files.close(fd)
        files.rename(fresh, self.path)
        files.fsync_directory(self.path.parent)
        files.fsync_directory(self.path.parent.parent)
