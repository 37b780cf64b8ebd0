"""Messages that are written to the log at once: packed records, their places, and the senders that wait."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gateway.store.log.copied_records import KeyedRecord
from gateway.store.put_result import message_count
from wire.message.record import LARGE_BODY_BYTES

if TYPE_CHECKING:
    from librt.strings import BytesWriter

    from gateway.store.disk.files import Buffer
    from gateway.store.disk.mapped_file import MappedFile
    from gateway.store.put_result import PutOutcome, PutResult, WaitFor

Waiter: TypeAlias = "tuple[Callable[[Any], None], PutResult | Sequence[PutOutcome], WaitFor]"
"""A callback, its argument, and when to call it.

The argument is the result of one message, or the results of messages that were appended at once.
"""

NO_END: Final = 1 << 60
"""An offset beyond every log, and a small number to compiled code."""
MAX_OUT_BYTES: Final = 256 * 1024
"""The number of bytes in ``out`` at which they are sealed; at most one record goes beyond this number."""


class LogBatch:
    """One write per file, one sync, then all answers. A plain class for speed: fields are filled message by message.

    ``writes`` holds (file, position in the file, buffers). ``buffers`` is the last of these lists; the content of
    ``out`` follows it until it is sealed. ``has_hasty`` is True if a waiter waits only for the write. The writer of the
    batch sets ``is_written``. A batch of copied records has their keys in ``keyed``, for the key index.

    :param out: an empty writer that all batches share in turn: a new writer would take longer to grow than the write
        takes.
    :param limit: the offset in the log beyond which no message is added.
    """

    __slots__ = (
        "buffers",
        "end",
        "has_hasty",
        "is_written",
        "keyed",
        "limit",
        "out",
        "outcomes",
        "start",
        "waiters",
        "writes",
    )

    def __init__(self, start: int, out: BytesWriter, limit: int = NO_END) -> None:
        self.start = start
        self.end = start
        self.limit = limit
        self.writes: list[tuple[MappedFile, int, list[Buffer]]] = []
        self.buffers: list[Buffer] = []
        self.out = out
        self.outcomes: list[PutOutcome] = []
        self.keyed: list[KeyedRecord] | None = None
        self.waiters: list[Waiter] = []
        self.has_hasty = False
        self.is_written = False

    def add(self, data: bytes) -> None:
        """Add these bytes at the end."""
        if len(data) < LARGE_BODY_BYTES:
            self.out.write(data)
            if len(self.out) >= MAX_OUT_BYTES:
                self.seal()
        else:
            self.seal()
            self.buffers.append(data)

    def seal(self) -> None:
        """Turn the content of ``out`` into a buffer: done before a large buffer, another file or another batch."""
        if len(self.out):
            self.buffers.append(self.out.getvalue())
            self.out.truncate(0)

    @property
    def size(self) -> int:
        """The number of bytes of the log that the batch covers, fillers included."""
        return self.end - self.start

    def content(self, limit: int) -> bytes | None:
        """Return the bytes of a sealed batch; None if they are in several files, or more than ``limit``."""
        return None if len(self.writes) != 1 or self.size > limit else b"".join(self.buffers)

    @property
    def has_its_files(self) -> bool:
        """True if the write only takes memory of the system: no file has to be made or opened."""
        return all(file.is_open for file, _, _ in self.writes)

    @property
    def count(self) -> int:
        """The number of messages in the batch."""
        return message_count(self.outcomes)
