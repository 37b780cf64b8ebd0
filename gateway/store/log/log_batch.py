"""Messages that go to the log together: packed records, where they are written, and who waits for them."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gateway.store.put_result import message_count
from wire.message.record import LARGE_BODY_BYTES

if TYPE_CHECKING:
    from librt.strings import BytesWriter

    from gateway.store.disk.files import Buffer
    from gateway.store.disk.mapped_file import MappedFile
    from gateway.store.put_result import PutOutcome, PutResult, WaitFor

Waiter: TypeAlias = "tuple[Callable[[Any], None], PutResult | Sequence[PutOutcome], WaitFor]"
"""A callback, what it gets (the result of one message, or those of messages appended together), and when."""

NO_END: Final = 1 << 60
"""An offset beyond every log, and a small number to compiled code."""
MAX_OUT_BYTES: Final = 256 * 1024
"""In ``out``, but for one record: then it is sealed."""


class LogBatch:
    """One write per file, one sync, then all answers. A plain class: fields are filled message by message.

    ``writes`` holds (file, position in it, buffers); ``buffers`` is the last of these lists, and what stands in ``out``
    goes on behind it until it is sealed. ``has_hasty`` when some waiter waits for the write only. ``is_written`` is set
    by whoever wrote it.

    :param out: empty, and of one batch after the other: growing anew takes longer than what is written.
    :param limit: the offset in the log beyond which nothing more is added.
    """

    __slots__ = (
        "buffers",
        "end",
        "has_hasty",
        "is_written",
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
        self.waiters: list[Waiter] = []
        self.has_hasty = False
        self.is_written = False

    def add(self, data: bytes) -> None:
        """Go on with these bytes."""
        if len(data) < LARGE_BODY_BYTES:
            self.out.write(data)
            if len(self.out) >= MAX_OUT_BYTES:
                self.seal()
        else:
            self.seal()
            self.buffers.append(data)

    def seal(self) -> None:
        """Make what stands in ``out`` a buffer: before others, another file or another batch."""
        if len(self.out):
            self.buffers.append(self.out.getvalue())
            self.out.truncate(0)

    @property
    def size(self) -> int:
        """Bytes of the log it covers, fillers included."""
        return self.end - self.start

    @property
    def has_its_files(self) -> bool:
        """Whether writing it only takes memory of the system: no file has to be made or opened."""
        return all(file.is_open for file, _, _ in self.writes)

    @property
    def count(self) -> int:
        """Messages in it."""
        return message_count(self.outcomes)
