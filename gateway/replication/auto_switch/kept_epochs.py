"""The epochs of this broker's log, in memory and in their file."""

from __future__ import annotations

from gateway.replication.epoch_file import EpochFile
from gateway.replication.epochs import Epochs
from wire.disk.epoch_file import EpochEntry


class KeptEpochs:
    """The epochs as they are on disk; made when a broker gets its role, while its store is open.

    :param end: where the log ends: an epoch that starts later belongs to bytes that the log has lost.
    """

    def __init__(self, file: EpochFile, end: int) -> None:
        self._file = file
        self.current: Epochs = file.load().without_from(end + 1)
        """The epochs of the log."""

    def keep(self, epochs: Epochs) -> None:
        """Write the epochs, and use them once they are on disk; blocks.

        :raises OSError: they are not on disk, and are not used.
        """
        if epochs != self.current:
            self._file.keep(epochs)
            self.current = epochs

    def promote(self, epoch: int, begin: int, end: int) -> EpochEntry:
        """Begin an epoch in which this broker is the master, and return its entry; blocks.

        A log without epochs belongs to this epoch from its begin on. A broker that starts again as the master of its
        last epoch goes on with it.

        :raises EpochTooOld: the log has a newer epoch.
        :raises OSError: the epoch is not on disk.
        """
        last = self.current.last
        if last is None or last.epoch != epoch:
            self.keep(
                self.current.promoted(epoch, end)
                if self.current.without_from(end).last
                else Epochs((EpochEntry(epoch, begin),))
            )
            last = self.current.last
        assert last is not None, "an epoch was added"
        return last
