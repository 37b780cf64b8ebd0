"""The epochs of a log on disk: ``epochFileCheckpoint``, as Apache RocketMQ's brokers read and write it.

The file is replaced as a whole; what was in it before stays as ``epochFileCheckpoint.bak``.
"""

from __future__ import annotations

from pathlib import Path

from gateway.metadata.saved.config_disk import ConfigDisk
from gateway.metadata.saved.json_file import JsonFile
from gateway.replication.epochs import Epochs
from wire.disk.epoch_file import EpochEntry, build_epochs, parse_epochs

NAME = "epochFileCheckpoint"


class EpochFile:
    """The file in the directory of a store; ``load`` and ``keep`` block, and may run in any thread.

    :param disk: the disk of the file; None for the operating system's files.
    """

    def __init__(self, root: Path, disk: ConfigDisk | None = None) -> None:
        self._file = JsonFile(root / NAME, disk)

    def load(self) -> Epochs:
        """Return what the file has; no epochs if there is no file.

        :raises GatewayError: neither the file nor its backup can be read.
        """
        entries: tuple[EpochEntry, ...] | None = self._file.load(parse_epochs)
        return Epochs(entries or ())

    def keep(self, epochs: Epochs) -> None:
        """Write the file; the epochs are on disk when this method returns.

        :raises OSError: the file is as it was before.
        """
        self._file.write(build_epochs(epochs.entries))
