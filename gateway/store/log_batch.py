"""Messages that go to the log together: packed records, where they are written, and who waits for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from librt.strings import BytesWriter

from gateway.store.put_result import message_count
from wire.message.record import LARGE_BODY_BYTES

if TYPE_CHECKING:
    from gateway.store.files import Buffer
    from gateway.store.mapped_file import MappedFile
    from gateway.store.put_result import PutOutcome, PutResult, WaitFor

Waiter: TypeAlias = "tuple[Callable[[Any], None], PutResult | Sequence[PutOutcome], WaitFor]"
"""A callback, what it gets (the result of one message, or those of messages appended together), and when."""


class LogBatch:
    """One write per file, one sync, then all answers. A plain class: fields are filled message by message.

    ``writes`` holds (file, position in it, buffers); ``buffers`` is the last of these lists, and what stands in ``out``
    goes on behind it. ``has_hasty`` when some waiter waits for the write only. ``is_written`` is set by whoever wrote
    it.
    """

    __slots__ = (
        "buffers",
        "end",
        "has_hasty",
        "is_written",
        "out",
        "outcomes",
        "start",
        "waiters",
        "writes",
    )

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.writes: list[tuple[MappedFile, int, list[Buffer]]] = []
        self.buffers: list[Buffer] = []
        self.out = BytesWriter()
        self.outcomes: list[PutOutcome] = []
        self.waiters: list[Waiter] = []
        self.has_hasty = False
        self.is_written = False

    def add(self, data: bytes) -> None:
        """Go on with these bytes."""
        if len(data) < LARGE_BODY_BYTES:
            self.out.write(data)
        else:
            self.seal()
            self.buffers.append(data)

    def seal(self) -> None:
        """Go on with other buffers, or in another file: what stands in ``out`` becomes a buffer."""
        if len(self.out):
            self.buffers.append(self.out.getvalue())
            self.out = BytesWriter()

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
