"""The file of epochs, ``epochFileCheckpoint``: which master wrote which part of the log.

    2                   the number of entries
    1725254278          the CRC-32 of the lines that follow; 0 is not checked
    1-0                 an epoch, and the offset in the log at which it starts
    2-723

A line break ends each line. Upstream: ``EpochFileCache``, ``CheckpointFile``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from zlib import crc32

from wire.errors import LayoutError

MAX_EPOCHS: Final = 100_000
"""The most entries that a file may have."""
MAX_EPOCH: Final = (1 << 31) - 1
MAX_START: Final = (1 << 63) - 1
_MAX_DIGITS: Final = 20


class EpochEntry(NamedTuple):
    """One epoch: the time of one master."""

    epoch: int
    """The number of the epoch; each elected master has a higher one than the master before."""
    start: int
    """The offset of the first byte of the log that this master wrote."""


def build_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """Return the content of the file."""
    lines = [b"%d-%d\n" % entry for entry in entries]
    content = b"".join(lines)
    return b"%d\n%d\n" % (len(lines), crc32(content)) + content


def parse_epochs(raw: bytes) -> tuple[EpochEntry, ...]:
    """Read the content of the file; line breaks of Windows are accepted.

    :raises LayoutError: the content is not whole, or its entries do not ascend.
    """
    head, lines, content = _split(raw)
    count, expected = (_number(line, "head") for line in head)
    if count != len(lines) or count > MAX_EPOCHS:
        raise LayoutError(f"an epoch file announces {count} entries and has {len(lines)}, the limit is {MAX_EPOCHS}")
    if expected and expected != crc32(content):
        raise LayoutError(f"an epoch file has the CRC-32 {crc32(content)}, and its head says {expected}")
    entries = tuple(_entry(line) for line in lines)
    check_ascending(entries)
    return entries


def check_ascending(entries: tuple[EpochEntry, ...]) -> None:
    """Check that both numbers of the entries are in range and rise.

    :raises LayoutError: they are not, or do not.
    """
    last = EpochEntry(-1, -1)
    for entry in entries:
        if not (last.epoch < entry.epoch <= MAX_EPOCH and last.start < entry.start <= MAX_START):
            raise LayoutError(
                f"the epoch {entry.epoch} from {entry.start} on follows {last.epoch} from {last.start} on"
            )
        last = entry


def _split(raw: bytes) -> tuple[list[bytes], list[bytes], bytes]:
    """Return the two lines of the head, the lines of the entries, and what their checksum is made of."""
    lines = raw.replace(b"\r\n", b"\n").split(b"\n")
    if lines[-1]:
        raise LayoutError("an epoch file does not end with a line break")
    if len(lines) < 3:
        raise LayoutError(f"an epoch file has {len(lines) - 1} lines, its head takes 2")
    return lines[:2], lines[2:-1], raw.split(b"\n", 2)[2].replace(b"\r\n", b"\n")


def _entry(line: bytes) -> EpochEntry:
    epoch, _, start = line.partition(b"-")
    return EpochEntry(_number(epoch, "epoch"), _number(start, "start of an epoch"))


def _number(text: bytes, what: str) -> int:
    if not text.isdigit() or len(text) > _MAX_DIGITS:
        raise LayoutError(f"an epoch file has {text[:32]!r} as {what}, a number belongs there")
    return int(text)
