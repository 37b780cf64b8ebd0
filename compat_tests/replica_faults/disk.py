"""A disk of its own for each broker: an ext4 file system in a file, which can be filled up and slowed down."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from compat_tests.soak.small_disk import NotPossible, SmallDisk

SIZE_BYTES = 4 * 1024**3
_LIMITS = Path("/sys/fs/cgroup/blkio")
_WRITES = "blkio.throttle.write_iops_device"


class SlowableDisk(SmallDisk):
    """A file system on a loop device, whose writes of one process a control group limits.

    The limit holds what the process itself writes and syncs, which is what it waits for.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._image = path.with_name(f"{path.name}.img")
        self._group = _LIMITS / f"rocketmq-faults-{os.getpid()}-{path.name}"
        self._device = ""

    def mount(self) -> None:
        if os.geteuid() != 0:
            raise NotPossible("mounting a file system needs root")
        if not _LIMITS.joinpath("blkio.throttle.io_serviced").exists():
            raise NotPossible(f"no control group limits writes at {_LIMITS}")
        self.path.mkdir(parents=True)
        with self._image.open("wb") as image:
            image.truncate(SIZE_BYTES)
        _do("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1", str(self._image))
        _do("mount", "-o", "loop", str(self._image), str(self.path))
        device = self.path.stat().st_dev
        self._device = f"{os.major(device)}:{os.minor(device)}"
        self._group.mkdir()

    def slow(self, process_id: int, writes_per_second: int) -> None:
        """From now on a process writes that often."""
        self._limit(writes_per_second)
        (self._group / "cgroup.procs").write_text(str(process_id))

    def quick(self) -> None:
        """Take the limit away."""
        self._limit(0)

    def unmount(self) -> None:
        super().unmount()
        self._image.unlink(missing_ok=True)
        if self._group.exists():
            self._group.rmdir()

    def _limit(self, writes_per_second: int) -> None:
        (self._group / _WRITES).write_text(f"{self._device} {writes_per_second}")


def _do(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise NotPossible(f"{' '.join(command)}: {done.stderr.strip()}")
