"""A machine: a disk with power failures, a clock that may jump, and one process at most."""

from __future__ import annotations

from random import Random
from typing import Any

from gateway.store.disk.files import DiskSpace
from gateway.store.message_store import MessageStore
from gateway.tests.crash.disk.image import Crash, Moment
from gateway.tests.crash.disk.recording import GIB, Change, Image, RecordingFiles
from gateway.tests.simulation.world import ProcessEnded, World

ROUNDS = "tables of the master"
START_MS = 1_750_000_000_000
FRESH = Image({}, {"/": 0, "/data": 0})
SPACE = DiskSpace(100 * GIB, 90 * GIB)
FULL = DiskSpace(100 * GIB, 0)
_DURABLE_END = MessageStore.durable_end
"""The end of what is on disk, also while a planted bug tells another one."""


def durable_end_of(process: Any) -> int:
    """Return the offset below which the log of a running broker is on disk."""
    end: int = _DURABLE_END.__get__(process.parts.store)
    return end


class SimulatedDisk(RecordingFiles):
    """The disk as one process sees it; the process may end in the middle of its changes."""

    def __init__(self, image: Image, machine: Machine, next_inode: int) -> None:
        super().__init__(image, machine.clock_ms)
        self._machine = machine
        self._next_inode = max(self._next_inode, next_inode)
        self.left: int | None = None
        """The number of changes after which the process ends; None: it does not."""
        self.process: Any = None

    @property
    def next_inode(self) -> int:
        """The number of the next file."""
        return self._next_inode

    def log(self, change: Change) -> None:
        """Take note of a change, and end the process if that was the last."""
        self.changes.append(change)
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                self.left = None
                if self.process is not None and self.process.is_alive:
                    self.process.end_now()
                    raise ProcessEnded
        elif self.process is not None and not self.process.is_alive:
            raise ProcessEnded


class Machine:
    """One machine."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self.number = number
        self.host = f"10.0.0.{number + 1}"
        self.clock_offset_ms = 0
        self.has_power = True
        self.paused_until_us = 0
        self.slow_us = 0
        """The most microseconds that work on the disk takes; 0 for a quick disk."""
        self.process: Any = None
        self.member: Any = None
        """The process of a controller's member, whose roles are ``process`` one after another."""
        self.jobs = {"consumer offsets", "delay offsets", ROUNDS, "tables", "commit log flush", "retention"}
        """The jobs of its processes that matter; others run many times a second for clients that hold requests."""
        self.lives = 0
        self.known_end = 0
        """The offset below which the log was on disk when its last process ended."""
        self.lineage = -1
        """The number of the promotion whose master's log this one follows."""
        self.in_sync = False
        """True if the log has had everything that was acknowledged in this lineage."""
        self.pauses_us = 0
        """The microseconds for which it stood still in this life."""
        self.had_errors = False
        """True if the disk refused something in this life."""
        self._begin_disk(FRESH)

    def _begin_disk(self, image: Image) -> None:
        self._moment = Moment(image)
        self.disk = SimulatedDisk(image, self, 1)

    def clock_ms(self) -> int:
        """Return the time of day that the machine believes in."""
        return START_MS + self._world.now_us // 1_000 + self.clock_offset_ms

    @property
    def running(self) -> Any:
        """The process that runs; None if none does."""
        return self.process if self.member is None else self.member

    def end(self, *, says_so: bool = True) -> None:
        """End the process that runs, if one does.

        :param says_so: False if the power is gone, so that nobody is told.
        """
        running = self.running
        if running is not None:
            running.end_now(says_so=says_so)

    def settle_disk(self) -> None:
        """Let a new process see what the old one has left; what is not synced may still be lost."""
        disk, moment = self.disk, self._moment
        for change in disk.changes:
            moment.pass_over(change)
        # A start syncs what it finds; that a system may have given up pages after a failed sync is not simulated.
        for unsynced in moment._unsynced.values():
            unsynced.is_doomed = False
        image = moment.image(moment.choice(Crash.KILL, Random(0)))
        self.disk = SimulatedDisk(image, self, disk.next_inode)
        self.disk.space = disk.space

    def lose_power(self, random: Random) -> None:
        """Keep of what is not synced only some."""
        disk, moment = self.disk, self._moment
        for change in disk.changes:
            moment.pass_over(change)
        crash = random.choice((Crash.NOTHING, Crash.NAMES, Crash.BYTES, Crash.SOME, Crash.SOME, Crash.SOME))
        self._begin_disk(moment.image(moment.choice(crash, random)))
        self.has_power = False

    def empty(self) -> None:
        """Remove everything from the disk."""
        assert self.process is None, "stopped first"
        self._begin_disk(FRESH)
        self.known_end, self.lineage, self.in_sync = 0, -1, False

    @property
    def durable_end(self) -> int:
        """The offset below which the log is on disk."""
        return self.known_end if self.process is None else durable_end_of(self.process)
