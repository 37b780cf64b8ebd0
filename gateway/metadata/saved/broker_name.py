"""The name under which a data directory was served, kept in the directory.

A broker without a configured name has the name of its host. Offsets that consumers keep themselves, the checkpoints of
Spark, receipts of pops, handles of timer messages and message traces all name the broker. So a directory that moves to
another host, or into a new container, is served under its first name.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from gateway.errors import GatewayError
from gateway.metadata.saved.config_disk import ConfigDisk, replace_file
from gateway.settings.broker import name_expected

FILE_NAME = "gateway-broker-name"
"""The name of the file. Never change: it is on disk."""
MAX_FILE_BYTES = 1_024
_MEMBER_TOPIC = re.compile(rb'"rmq_sys_SYNC_BROKER_MEMBER_([^"\\]+)"')
"""A topic that each broker, Apache RocketMQ 5.x included, makes at its start and never deletes."""


class KeptName(NamedTuple):
    """A name, and the file that contains it."""

    name: str
    path: Path


def kept_name(root: Path) -> KeptName | None:
    """Return the name under which a directory was served; None if no name is known.

    Directories of earlier versions and of Apache RocketMQ have no file with the name, but a topic that contains it.

    :raises GatewayError: the file contains no name, and the topics do not either.
    """
    path = root / FILE_NAME
    try:
        fault = None if path.is_file() or not path.exists() else "it is no file"
        text = b"" if fault else _read(path)
    except FileNotFoundError:
        return _name_of_topics(root)
    except OSError as error:
        fault, text = error.strerror or str(error), b""
    name = text.decode("ascii", "replace").strip()
    if not fault and len(text) <= MAX_FILE_BYTES and name_expected(name) is None:
        return KeptName(name, path)
    found = _name_of_topics(root)
    if found is None:
        raise GatewayError(
            f"{path} does not have the broker's name ({fault or 'it holds no name'}): write the name into it, or set "
            "brokerName; with another name than before, what consumers know of this broker does not fit any more"
        )
    return found


def keep_name(root: Path, name: str, disk: ConfigDisk | None = None) -> None:
    """Write the name to the disk, unless it is already there; the caller must have locked the directory.

    :raises OSError: the name cannot be written.
    """
    disk = ConfigDisk() if disk is None else disk
    path, content = root / FILE_NAME, f"{name}\n".encode()
    if disk.exists(path) and disk.file_size(path) == len(content) and disk.read(path) == content:
        return
    replace_file(disk, path, content)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_FILE_BYTES + 1)


def _name_of_topics(root: Path) -> KeptName | None:
    """Return the name in the table of topics; None if there are several, since nobody knows the right one."""
    path = root / "config" / "topics.json"
    try:
        names = set(_MEMBER_TOPIC.findall(path.read_bytes())) if path.is_file() else set()
    except OSError:  # who loads the table will say more
        return None
    if len(names) != 1:
        return None
    name = names.pop().decode("ascii", "replace")
    return KeptName(name, path) if name_expected(name) is None else None
