"""The bytes between master and slave of a group with a controller: a greeting, then reports and parts of the log.

    slave → master    greeting: who the slave is; repeated until it is answered
    master → slave    answer: the end of the master's log, and which epochs the log has
    slave → master    report: the offset after the slave's last byte; the first one says where the copy goes on
    master → slave    part: an offset, its epoch, the offset up to which the group has the log, and bytes of one epoch

Each frame begins with the phase of the connection. A frame of another phase ends the connection. The caller judges
whether offsets and epochs fit. Upstream: ``AutoSwitchHAClient``, ``AutoSwitchHAConnection``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from wire.disk.epoch_file import EpochEntry, check_ascending
from wire.errors import FrameError, LayoutError
from wire.fixed_layout import FixedLayout, Int16sb, Int32sb, Int64sb
from wire.replication.classic import MAX_STRETCH_BYTES


class Phase(IntEnum):
    """The phase of a connection, as the first number of each frame."""

    READY = 0
    HANDSHAKE = 1
    TRANSFER = 2
    SUSPEND = 3
    SHUTDOWN = 4


GREETING: Final = FixedLayout(
    "replica greeting", phase=Int32sb, from_last_file=Int16sb, is_learner=Int16sb, broker_id=Int64sb
)
ANSWER_HEAD: Final = FixedLayout(
    "answer to a greeting", phase=Int32sb, body_bytes=Int32sb, end=Int64sb, last_epoch=Int32sb
)
EPOCH: Final = FixedLayout("epoch", epoch=Int32sb, start=Int64sb)
PROGRESS: Final = FixedLayout("replica progress", phase=Int32sb, end_offset=Int64sb)
PART_HEAD: Final = FixedLayout(
    "log part head",
    phase=Int32sb,
    body_bytes=Int32sb,
    offset=Int64sb,
    epoch=Int32sb,
    epoch_start=Int64sb,
    confirmed=Int64sb,
)
_PHASE: Final = FixedLayout("phase", phase=Int32sb)

MAX_ANSWER_EPOCHS: Final = 1000
"""The most epochs of an answer: a slave of Apache RocketMQ has no room for more."""
MAX_PART_BODY_BYTES: Final = MAX_STRETCH_BYTES - PART_HEAD.size
"""The most bytes of the log in one part."""


class Greeting(NamedTuple):
    """The first words of a slave."""

    broker_id: int
    """The id that the controller gave to the slave."""
    from_last_file: bool = False
    """True if an empty slave wants only the last file of the log."""
    is_learner: bool = False
    """True if the slave never joins those for which senders wait."""


class SlaveReport(NamedTuple):
    """A report of a slave."""

    end: int
    """The offset after the last byte that the slave has."""


class MasterAnswer(NamedTuple):
    """The master's answer to a greeting."""

    end: int
    """The offset after the last byte of the master's log."""
    last_epoch: int
    """The newest epoch of the master; 0 if it has none."""
    epochs: tuple[EpochEntry, ...]
    """The newest epochs of the master, in order."""


class LogPart(NamedTuple):
    """A part of the log as the master sends it."""

    offset: int
    """The offset of the first byte in the log."""
    epoch: EpochEntry
    """The epoch to which all bytes of the part belong."""
    confirmed: int
    """The offset up to which every member that senders wait for has the log."""
    body: bytes
    """The bytes; none for a heartbeat, whose offset is that of the byte that comes next."""


def build_greeting(greeting: Greeting) -> bytes:
    """Return the bytes of a greeting."""
    return GREETING.pack(Phase.HANDSHAKE, greeting.from_last_file, greeting.is_learner, greeting.broker_id)


def build_progress(end: int) -> bytes:
    """Return the bytes with which a slave reports the offset after its last byte."""
    return PROGRESS.pack(Phase.TRANSFER, end)


def build_answer(end: int, epochs: Sequence[EpochEntry]) -> bytes:
    """Return the bytes of the answer to a greeting: the newest ``MAX_ANSWER_EPOCHS`` of the epochs are named."""
    named = epochs[-MAX_ANSWER_EPOCHS:]
    body = b"".join(EPOCH.pack(*entry) for entry in named)
    return ANSWER_HEAD.pack(Phase.HANDSHAKE, len(body), end, named[-1].epoch if named else 0) + body


def build_part_head(offset: int, body_bytes: int, epoch: EpochEntry, confirmed: int) -> bytes:
    """Return the bytes before a part of the log: apart from the part, so that it need not be copied."""
    return PART_HEAD.pack(Phase.TRANSFER, body_bytes, offset, *epoch, confirmed)


class GroupReportReader:
    """The master's receiving half of a connection: greetings until the first report, then reports only."""

    __slots__ = ("_partial", "_phase")

    def __init__(self) -> None:
        self._partial = b""
        self._phase = Phase.HANDSHAKE

    def receive_data(self, data: bytes) -> list[Greeting | SlaveReport]:
        """Take the bytes of one read; return the frames that they complete, in order.

        :raises FrameError: a frame is none of a slave, or not of the phase of the connection.
        """
        data = self._partial + data
        found: list[Greeting | SlaveReport] = []
        position = 0
        while len(data) - position >= _PHASE.size:
            (phase,) = _PHASE.unpack_from(data, position)
            layout = self._layout(phase)
            if len(data) - position < layout.size:
                break
            values = layout.unpack_from(data, position)
            position += layout.size
            found.append(_progress(*values[1:]) if layout is PROGRESS else _greeting(*values[1:]))
        self._partial = data[position:]
        return found

    def _layout(self, phase: int) -> FixedLayout:
        if phase == Phase.TRANSFER:
            self._phase = Phase.TRANSFER
            return PROGRESS
        if phase == self._phase:
            return GREETING
        raise FrameError(f"a replica sends a frame of phase {phase} in phase {self._phase}")


def _progress(end: int) -> SlaveReport:
    if end < 0:
        raise FrameError(f"a replica reports the offset {end}")
    return SlaveReport(end)


def _greeting(from_last_file: int, is_learner: int, broker_id: int) -> Greeting:
    if broker_id < 0 or from_last_file not in (0, 1) or is_learner not in (0, 1):
        raise FrameError(f"a replica greets as broker {broker_id} with {from_last_file} and {is_learner}")
    return Greeting(broker_id, bool(from_last_file), bool(is_learner))


class PartReader:
    """The slave's receiving half of a connection: the answer, then parts; holds one incomplete frame at most."""

    __slots__ = ("_needed_bytes", "_partial", "_phase")

    def __init__(self) -> None:
        self._partial = bytearray()
        self._phase = Phase.HANDSHAKE
        self._needed_bytes = ANSWER_HEAD.size

    @property
    def buffered_bytes(self) -> int:
        """The number of bytes held of an incomplete frame."""
        return len(self._partial)

    def receive_data(self, data: bytes) -> list[MasterAnswer | LogPart]:
        """Take the bytes of one read; return the frames that they complete, in order.

        :raises FrameError: a frame is none of a master, or not of the phase of the connection.
        """
        partial = self._partial
        partial += data
        if len(partial) < self._needed_bytes:
            return []
        found: list[MasterAnswer | LogPart] = []
        position = 0
        with memoryview(partial) as view:
            while True:
                head = ANSWER_HEAD if self._phase is Phase.HANDSHAKE else PART_HEAD
                self._needed_bytes = head.size
                if len(view) - position < head.size:
                    break
                values = head.unpack_from(view, position)
                self._check(values[0], values[1])
                begin, stop = position + head.size, position + head.size + values[1]
                if len(view) < stop:
                    self._needed_bytes = stop - position
                    break
                body = bytes(view[begin:stop])
                found.append(_answer(values, body) if head is ANSWER_HEAD else _part(values, body))
                self._phase = Phase.TRANSFER
                position = stop
        del partial[:position]
        return found

    def _check(self, phase: int, body_bytes: int) -> None:
        if phase != self._phase:
            raise FrameError(f"a master sends a frame of phase {phase} in phase {self._phase}")
        is_answer = phase == Phase.HANDSHAKE
        most = MAX_ANSWER_EPOCHS * EPOCH.size if is_answer else MAX_PART_BODY_BYTES
        if not 0 <= body_bytes <= most or (is_answer and body_bytes % EPOCH.size):
            raise FrameError(
                f"a master announces {body_bytes} bytes after a head of phase {phase}, the limit is {most}"
            )


def read_epochs(body: bytes) -> tuple[EpochEntry, ...]:
    """Return the epochs that an answer names.

    :raises FrameError: they do not ascend.
    """
    epochs = tuple(EpochEntry(epoch, start) for epoch, start in EPOCH.iter_unpack(body))
    try:
        check_ascending(epochs)
    except LayoutError as error:
        raise FrameError(f"a master names epochs out of order: {error}") from error
    return epochs


def _answer(head: tuple[int, ...], body: bytes) -> MasterAnswer:
    _, _, end, last_epoch = head
    if end < 0:
        raise FrameError(f"a master's log ends at {end}")
    return MasterAnswer(end, last_epoch, read_epochs(body))


def _part(head: tuple[int, ...], body: bytes) -> LogPart:
    _, _, offset, epoch, start, confirmed = head
    if not 0 <= start <= offset or epoch < 0:
        raise FrameError(f"a master sends its log from {offset} on as of epoch {epoch}, which starts at {start}")
    return LogPart(offset, EpochEntry(epoch, start), confirmed, body)
