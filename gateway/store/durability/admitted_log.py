"""The commit log as batches reach it: after a failure nothing more is written."""

from __future__ import annotations

from gateway.store.admission import Admission
from gateway.store.durability.store_files import StoreFiles
from gateway.store.errors import WriteFailed
from gateway.store.log.log_batch import LogBatch


class AdmittedLog:
    """The log that writes batches while the store has not failed."""

    def __init__(self, files: StoreFiles, admission: Admission) -> None:
        self.files = files
        self._admission = admission
        self.new_batch = files.log.new_batch
        self.sync = files.log.sync

    def write(self, batch: LogBatch) -> None:
        """Hand a batch to the system.

        :raises DiskFull: there is no room for the batch.
        :raises WriteFailed: the disk failed, now or since the batch was gathered.
        """
        if self._admission.failure is not None:  # a timed flush failed after the batch was gathered
            raise WriteFailed(self._admission.failure)
        self.files.log.write(batch)
