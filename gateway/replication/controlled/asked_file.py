"""The set that a master asked its controllers to take last, on disk: ``syncStateSetAsked``, in their own JSON.

A question that is on its way when the master loses power may be carried out after the master's restart. Its members
count until then.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gateway.metadata.saved.config_disk import ConfigDisk
from gateway.metadata.saved.json_file import JsonFile
from wire.bodies.controller import SyncStateSet

NAME = "syncStateSetAsked"


class AskedFile:
    """The file in the directory of a store; both methods block, and may run in any thread.

    :param disk: the disk of the file; None for the operating system's files.
    """

    def __init__(self, root: Path, disk: ConfigDisk | None = None) -> None:
        self._file = JsonFile(root / NAME, disk)

    def doubted(self, set_epoch: int) -> frozenset[int]:
        """Return the members of a question that may still be carried out while the set has an epoch; none, if none may.

        A controller carries out a question only while the set is the one before the question, and counts each change.

        :raises GatewayError: neither the file nor its backup can be read.
        """
        asked = self._file.load(SyncStateSet.parse)
        if asked is None or asked.sync_state_set_epoch < set_epoch:
            return frozenset()
        return frozenset(asked.sync_state_set)

    def keep(self, members: Iterable[int], set_epoch: int) -> None:
        """Write which members are asked for, and the epoch of the set before; it is on disk when this method returns.

        :raises OSError: the file is as it was before.
        """
        self._file.write(SyncStateSet(sorted(members), set_epoch).build())
