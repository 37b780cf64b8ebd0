"""The broker id that a controller gave to a directory, in two files with the names and the form of Apache RocketMQ.

An id is taken in two steps, so that a crash between them takes no second id. The first file has the id that is asked
for, with a check code by which the controller knows the same asker again. The second file has the id for good.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gateway.errors import GatewayError
from gateway.metadata.saved.config_disk import ConfigDisk, replace_file

FILE_NAME = "brokerIdentity"
APPLIED_FILE_NAME = "brokerIdentity-temp"
"""The names of both files. Never change: they are on disk, and Apache RocketMQ's."""
SEPARATOR = "#"
MAX_FILE_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """The id of a broker within the brokers of one name; ids begin with 1."""

    cluster: str
    broker_name: str
    broker_id: int

    def build(self) -> str:
        """Return the text of the file."""
        return SEPARATOR.join((self.cluster, self.broker_name, str(self.broker_id)))


@dataclass(frozen=True, slots=True)
class AppliedIdentity:
    """An id that is asked for, with the code by which the controller knows the asker."""

    identity: BrokerIdentity
    check_code: str

    def build(self) -> str:
        """Return the text of the file."""
        return SEPARATOR.join((self.identity.build(), self.check_code))


class IdentityUnreadable(GatewayError):  # noqa: N818 (a fact about a file)
    """A file has no identity, or that of another broker."""


class IdentityFiles:
    """Both files of one directory; all methods block.

    :param cluster: the names that the files have to show.
    """

    def __init__(self, root: Path, cluster: str, broker_name: str, disk: ConfigDisk | None = None) -> None:
        self._root = root
        self._names = cluster, broker_name
        self._disk = ConfigDisk() if disk is None else disk

    def load(self) -> tuple[BrokerIdentity | None, AppliedIdentity | None]:
        """Return the identity, and the one that was asked for; each None if it has no file.

        :raises IdentityUnreadable: a file has no identity, or that of another broker.
        """
        kept, applied = self._read(FILE_NAME, 3), self._read(APPLIED_FILE_NAME, 4)
        return (
            None if kept is None else self._identity(FILE_NAME, kept),
            None if applied is None else AppliedIdentity(self._identity(APPLIED_FILE_NAME, applied), applied[3]),
        )

    def keep_applied(self, applied: AppliedIdentity) -> None:
        """Write which id is asked for.

        :raises OSError: the file cannot be written.
        """
        self._write(APPLIED_FILE_NAME, applied.build())

    def keep(self, identity: BrokerIdentity) -> None:
        """Write the id for good, and remove the file of the id that was asked for.

        :raises OSError: the file cannot be written.
        """
        self._write(FILE_NAME, identity.build())
        self._disk.unlink(self._root / APPLIED_FILE_NAME)
        self._disk.fsync_directory(self._root)

    def _identity(self, name: str, words: list[str]) -> BrokerIdentity:
        if (words[0], words[1]) != self._names:
            cluster, broker_name = self._names
            raise IdentityUnreadable(
                f"{self._root / name} is of broker {words[1]} in cluster {words[0]}, and this is {broker_name} in "
                f"{cluster}: set brokerName and brokerClusterName to those of the file, or use another directory"
            )
        if not (words[2].isascii() and words[2].isdigit() and len(words[2]) < 19 and int(words[2]) > 0):
            raise IdentityUnreadable(f"{self._root / name} has {words[2][:32]!r} where a broker id above 0 has to be")
        return BrokerIdentity(words[0], words[1], int(words[2]))

    def _read(self, name: str, words: int) -> list[str] | None:
        path = self._root / name
        if not self._disk.exists(path):
            return None
        if self._disk.file_size(path) > MAX_FILE_BYTES:
            raise IdentityUnreadable(f"{path} is longer than {MAX_FILE_BYTES} bytes")
        found = self._disk.read(path).decode("utf-8", "replace").strip().split(SEPARATOR)
        if len(found) != words:
            raise IdentityUnreadable(
                f"{path} has {len(found)} words between {SEPARATOR}, not {words}: if the file is lost, the controller "
                "gives this directory another id once the file is removed"
            )
        return found

    def _write(self, name: str, text: str) -> None:
        self._disk.make_directory(self._root)
        replace_file(self._disk, self._root / name, text.encode())
