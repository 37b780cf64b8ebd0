"""Between two rounds: read what is new, compare offsets with what was saved, and say which files may be deleted.

A log file may go when everybody has read it: the account, and every consumer up to its committed offsets. Otherwise
a deleted message could not be told from a lost one.
"""

from __future__ import annotations

import time
from pathlib import Path

from compat_tests.soak.broker import SoakedBroker
from compat_tests.soak.findings import Findings, Wrong
from compat_tests.soak.load import Load
from compat_tests.soak.streams import QUEUES, STREAMS

_UNSEALED_FILES = 2
"""The one that is written, and one that a batch under way may still reach into."""
_GROUPS_S = 30.0
_POLL_S = 0.2


class Progress:
    """Readings of one soak, and what follows from them."""

    def __init__(self, broker: SoakedBroker, load: Load, findings: Findings) -> None:
        self._broker = broker
        self._load = load
        self._findings = findings
        self._sealed: list[Path] = []
        self._read_up_to: dict[tuple[str, int], int] = {}
        self._known_files: set[Path] = set()
        self.deletable: list[Path] = []

    @property
    def deleted_files(self) -> int:
        return len(self._known_files - set(self._broker.log_files()))

    def put_down(self) -> None:
        """Read what is new; every message acknowledged by now must be among it."""
        files = self._broker.log_files()
        self._known_files |= set(files)
        self._load.look()
        self._load.read_all()
        committed = self._committed()
        self._compare_with_saved(committed)
        if all(committed[place] >= end for place, end in self._read_up_to.items()):
            self.deletable = self._sealed
            self._sealed = files[:-_UNSEALED_FILES]
            self._read_up_to = self._ends()

    def wait_for_groups(self) -> None:
        """Until the consumers have committed all there is."""
        end = time.monotonic() + _GROUPS_S
        ends = self._ends()
        while (behind := {k: v for k, v in self._committed().items() if v < ends[k]}) and time.monotonic() < end:
            time.sleep(_POLL_S)  # noqa: TID251 - other processes are under way
        for (name, queue), offset in behind.items():
            self._findings.add(Wrong.MISSED, f"{name}: the group stays at {queue}/{offset} of {ends[name, queue]}")

    def _ends(self) -> dict[tuple[str, int], int]:
        return {
            (stream.name, queue): end
            for stream in STREAMS
            for queue, end in enumerate(self._load.accounts[stream.name].ends())
        }

    def _committed(self) -> dict[tuple[str, int], int]:
        return {
            (stream.name, queue): max(
                0, self._broker.committed(self._load.topic(stream), self._load.group(stream), queue)
            )
            for stream in STREAMS
            for queue in range(QUEUES)
        }

    def _compare_with_saved(self, committed: dict[tuple[str, int], int]) -> None:
        """Check that each group is at least at the offset that was in the file when the broker was killed."""
        for stream in STREAMS:
            saved = self._broker.saved_offsets.get(f"{self._load.topic(stream)}@{self._load.group(stream)}", {})
            for queue, offset in saved.items():
                now = committed[stream.name, queue]
                if now < offset:
                    self._findings.add(
                        Wrong.BACKWARDS, f"{stream.name}: the group was saved at {queue}/{offset}, and is at {now}"
                    )
