"""A file system of its own for the store directory: it can be filled up and made read-only without harming anybody.

Mounting needs root. Where that is not possible the soak says so and does without the faults that need it.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

SIZE_BYTES = 192 * 1024 * 1024
_STEP_BYTES = 1024 * 1024


class NotPossible(Exception):  # noqa: N818 - a fact about the machine
    """There is no way to mount a file system here; the text says why."""


class SmallDisk:
    """A tmpfs at ``path``; the store lies in ``data``, beside the file that fills the disk up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = path / "data"
        self._ballast = path / "ballast"

    def mount(self) -> None:
        """Make it.

        :raises NotPossible: not root, no ``mount``, or the system forbids it (containers mostly do).
        """
        if os.geteuid() != 0 or shutil.which("mount") is None:
            raise NotPossible("mounting a small file system needs root")
        self.path.mkdir(parents=True, exist_ok=True)
        done = _run("mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "rocketmq-gateway-soak", str(self.path))
        if done.returncode != 0:
            raise NotPossible(f"mount failed: {done.stderr.strip()}")

    def unmount(self) -> None:
        """The content is gone afterwards."""
        _run("umount", "--lazy", str(self.path))

    def fill(self, leave_bytes: int) -> None:
        """Take all space but ``leave_bytes``."""
        fd = os.open(self._ballast, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            size = os.fstat(fd).st_size
            while self.free_bytes > leave_bytes:
                step = min(_STEP_BYTES, self.free_bytes - leave_bytes)
                try:
                    os.posix_fallocate(fd, size, step)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    break  # the store was quicker
                size += step
        finally:
            os.close(fd)

    def empty(self) -> None:
        """Give the space back."""
        self._ballast.unlink(missing_ok=True)

    @property
    def free_bytes(self) -> int:
        stat = os.statvfs(self.path)
        return stat.f_bavail * stat.f_frsize

    def copy_data(self, to: Path) -> None:
        """Save the store from the end of this disk."""
        done = _run("cp", "-a", "--sparse=always", str(self.data), str(to))
        assert done.returncode == 0, f"the store could not be kept: {done.stderr}"

    def set_read_only(self, read_only: bool) -> None:
        """Possible only while nobody writes there."""
        done = _run("mount", "-o", f"remount,{'ro' if read_only else 'rw'}", str(self.path))
        if done.returncode != 0:
            raise NotPossible(f"remount failed: {done.stderr.strip()}")


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
