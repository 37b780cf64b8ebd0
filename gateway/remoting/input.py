"""The incoming bytes of a channel: each read's complete commands are carried out and answered.

All commands of one read are dispatched at once, and their answers are written at once. If the answers are many and
large, the remaining commands wait until the peer has read. If the connections of the server have used up a turn of the
reactor, arriving bytes wait for the next turn, see ``InputTurn``. Malformed bytes end the connection with a log line
and without an answer, as in ``NettyDecoder``: after malformed bytes the stream has no frame boundaries.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from contextlib import suppress
from typing import Final, Protocol

from gateway.errors import forget_frames
from gateway.remoting.answers.held_bytes import HeldBytes
from gateway.remoting.channel import Channel
from gateway.remoting.input_turn import (
    BYTE_COST_S,
    COSTLY_S,
    LEAST_COST_S,
    MAX_LEFT,
    MOST_QUICK_READS,
    QUICK_READS,
    TURN_S,
    InputTurn,
)
from gateway.telemetry.logs import EventLog
from wire.command import ONEWAY_FLAG, RemotingCommand
from wire.connection import Connection
from wire.errors import RemoteError


class FrameHolder(Protocol):
    """The part of a connection that concerns its incomplete frame; connections are compared by identity."""

    def drop(self, reason: str) -> None:
        """Close at once, hold nothing any more, and report so to ``IncompleteFrames.holds``."""


class IncompleteFrames:
    """The bytes of incomplete frames of all connections of one server, and their limit.

    One connection cannot hold more than a frame, but thousands of connections could take all memory. Over the limit,
    the connection that holds the most is dropped, not the one whose read came last: that may be any client with half a
    request on its way. Upstream has no such limit.

    :param limit_bytes: at least the longest frame, so that a lone connection is never dropped.
    :param of_all: what all requests of the process hold, with a limit of its own; by default nothing else counts.
    """

    def __init__(self, limit_bytes: int, of_all: HeldBytes | None = None) -> None:
        self.total_bytes = 0
        self._limit_bytes = limit_bytes if of_all is None else min(limit_bytes, of_all.most_of_requests)
        self._of_all = HeldBytes(limit_bytes) if of_all is None else of_all
        self._bytes_by_holder: dict[FrameHolder, int] = {}

    def holds(self, holder: FrameHolder, held_bytes: int) -> None:
        """Note how many bytes a connection holds now; 0 if its frame is complete or the connection is closed."""
        held = self._bytes_by_holder
        by_bytes = held_bytes - held.get(holder, 0)
        self.total_bytes += by_bytes
        self._of_all.change(by_bytes)
        if held_bytes:
            held[holder] = held_bytes
        else:
            held.pop(holder, None)
        if self.total_bytes > self._limit_bytes or self._of_all.must_shrink(self.total_bytes):
            self._drop_largest()

    def _drop_largest(self) -> None:
        # To drop one connection is enough: the largest holds at least as many bytes as the connection that has just
        # grown, and so at least as many bytes as were just added.
        largest = max(self._bytes_by_holder, key=self._bytes_by_holder.__getitem__)
        largest.drop(
            f"gateway.incompleteFrameBytesLimit: incomplete frames take {self.total_bytes} bytes, {self._limit_bytes} "
            f"at most, and no connection holds more of them than this one, {self._bytes_by_holder[largest]} bytes; "
            f"{self._of_all}"
        )


log = EventLog("remoting")

TURN_COMMANDS: Final = 8
"""The number of commands carried out before a check whether the peer reads its answers (8 pulls: up to 2 MiB)."""

COMMAND_BYTES: Final = 1_024
"""The memory in bytes that counts for each waiting command, as if it were part of an incomplete frame.

One read may contain thousands of commands.
"""

_FREE: Final = 0
_IN_LINE: Final = 1
_FOR_ROOM: Final = 2
_LEFT: Final = 3
"""The states of an input.

An input waits for nothing, for its turn, until its peer reads, or for its turn after its peer left.
"""


class Commands(Protocol):
    """The receiver of commands; ``Dispatch`` is one."""

    def commands(self, channel: Channel, commands: list[RemotingCommand]) -> None:
        """Carry out all commands of one read; never raises."""


class Input:
    """The incoming side of one channel. A plain class for speed: ``received`` runs for every read."""

    def __init__(
        self,
        channel: Channel,
        commands: Commands,
        turn: InputTurn,
        incomplete_frames: IncompleteFrames,
        connection: Connection,
    ) -> None:
        self._channel = channel
        self._commands = commands
        self._turn = turn
        self._incomplete_frames = incomplete_frames
        self._connection = connection
        self._held_bytes = 0
        self._unread: list[bytes] = []
        self._waiting: list[RemotingCommand] = []
        self._waits = _FREE
        self._quick_reads = 0
        self._watched_reads = QUICK_READS
        """The number of next reads whose processor time is measured: the first reads, and the reads after a slow read.
        Elapsed time alone proves nothing: a machine with other work makes every connection slow now and then."""
        self._cost_s = LEAST_COST_S
        """The number of seconds that the last requests of this connection took."""
        self._turn_commands = TURN_COMMANDS
        channel.on_close(self._discard)

    def received(self, data: bytes) -> None:
        """Dispatch the commands that these bytes complete, and write the answers that are ready."""
        channel = self._channel
        if channel.closed:
            return
        channel.active = True
        if self._waits != _FREE or self._turn.used_s >= TURN_S:
            self._wait_with(data)
        else:
            self._read(data)

    def go_on(self) -> None:
        """Take this connection's turn: carry out what waits."""
        channel = self._channel
        if channel.closed:
            self._finish()
        elif channel.is_full:
            self._wait_for_room()
        else:
            self._read_what_waits()
            if self._waits == _FREE:
                channel.read_on()

    def drop(self, reason: str) -> None:
        """Close at once: the incomplete frames of all connections take too much memory, or continuing failed."""
        if self._channel.closed:  # what the peer left still waits, or has failed
            self._forget()
        else:
            self._channel.abort(reason)

    def _read(self, data: bytes) -> None:
        """Carry out the waiting commands, and the commands that these bytes complete."""
        turn, connection = self._turn, self._connection
        began_s = turn.seconds()
        processor_s = turn.processor_seconds() if self._watched_reads else 0.0
        try:
            commands = connection.receive_data(data)
        except RemoteError:  # also kept as connection.failure
            commands = []
        if len(commands) > self._turn_commands or self._waiting:
            self._waiting += commands
            self._carry_out_waiting(began_s, processor_s)
        elif commands:
            flush_group = turn.flush_group
            flush_group.hold()
            self._commands.commands(self._channel, commands)
            flush_group.flush()
            took_s = turn.spend(began_s)
            if took_s >= COSTLY_S or self._quick_reads < MOST_QUICK_READS or self._watched_reads:
                self._judge(took_s, processor_s)
        failure = connection.failure
        if failure is not None:
            self._failed(failure)
        # Counted last, because dispatch may close the channel. Most reads end with a whole frame: nothing to count.
        if self._held_bytes or connection.buffered_bytes or self._waiting:
            self._count()

    def _carry_out_waiting(self, began_s: float, processor_s: float) -> None:
        """Carry out waiting commands for as long as the peer keeps up and the turn is not over.

        :param began_s: the start of the measured time, in seconds.
        :param processor_s: the processor time at that start, if processor time is measured.
        """
        channel, waiting, turn = self._channel, self._waiting, self._turn
        flush_group = turn.flush_group
        flush_group.hold()
        while waiting:
            count = self._turn_commands
            part = waiting[:count]
            del waiting[:count]
            self._commands.commands(channel, part)
            took_s = turn.spend(began_s)
            began_s += took_s
            self._judge(took_s, processor_s)
            if self._watched_reads:
                processor_s = turn.processor_seconds()
            if channel.is_full and not channel.closed:
                flush_group.flush()
                if channel.is_full and waiting and not channel.closed:
                    self._wait_for_room()
                    return
                flush_group.hold()
            if turn.used_s >= TURN_S and waiting:
                channel.let_others()
                self._wait_in_line()
                break
        flush_group.flush()

    def _judge(self, took_s: float, processor_s: float) -> None:
        """Note how quick the peer's requests are.

        :param took_s: the seconds that the requests took.
        :param processor_s: this thread's processor time when the requests started; without meaning if it is not
            measured.
        """
        if took_s >= COSTLY_S:
            self._turn_commands = 1
            if self._watched_reads:
                took_s = self._turn.processor_seconds() - processor_s
                if took_s >= COSTLY_S:
                    self._quick_reads = max(self._quick_reads - QUICK_READS, 0)
                self._cost_s = took_s
            self._watched_reads = QUICK_READS
            return
        self._cost_s = took_s
        if self._watched_reads:
            self._watched_reads -= 1
        if self._quick_reads < MOST_QUICK_READS:
            self._quick_reads += 1
        if self._turn_commands < TURN_COMMANDS:
            self._turn_commands *= 2

    # -- waiting --------------------------------------------------------------------------------------------

    def _wait_with(self, data: bytes) -> None:
        """Keep these bytes until this connection's turn; if the peer sends more, stop reading it until then."""
        self._unread.append(data)
        if self._waits == _FREE:
            self._wait_in_line()
        elif self._waits == _IN_LINE:
            self._channel.let_others()
        self._count()

    def _wait_in_line(self) -> None:
        if self._channel.closed:
            self._waits = _LEFT
            self._turn.left += 1
        else:
            self._waits = _IN_LINE
        cost_s = LEAST_COST_S + self._cost_s + sum(map(len, self._unread)) * BYTE_COST_S
        self._turn.wait(self, self._channel.remote[0], self._quick_reads >= QUICK_READS, cost_s)

    def _wait_for_room(self) -> None:
        self._waits = _FOR_ROOM
        self._channel.pause_reading(self._has_room)

    def _has_room(self) -> None:
        if self._turn.used_s >= TURN_S:
            self._channel.let_others()
            self._wait_in_line()
        else:
            self._read_what_waits()

    def _read_what_waits(self) -> None:
        self._waits = _FREE
        unread, self._unread = self._unread, []
        self._read(b"".join(unread))

    # -- the end --------------------------------------------------------------------------------------------

    def _failed(self, failure: RemoteError) -> None:
        forget_frames(failure)  # frames refer to this connection: a reference cycle
        if not self._channel.closed:
            log.warning("malformed bytes", remote=self._channel.remote_text, error=str(failure))
        self._channel.close("malformed bytes", is_logged=True)

    def _discard(self, _: Channel) -> None:
        """Keep only waiting one-way commands of a closed connection, such as the last outcomes of a producer.

        Senders of other commands notice that no answer came, and ask again.
        """
        self._waiting[:] = [command for command in self._waiting if command.flag & ONEWAY_FLAG]
        if self._waits != _FREE and (self._waiting or self._unread):
            self._leave()
        if not self._unread:
            self._connection.discard()
        self._count()

    def _forget(self) -> None:
        self._waiting.clear()
        self._unread.clear()
        self._connection.discard()
        self._count()

    def _leave(self) -> None:
        turn = self._turn
        if turn.left >= MAX_LEFT:
            self._forget()
        elif self._waits == _IN_LINE:
            self._waits = _LEFT
            turn.left += 1
        elif turn.used_s >= TURN_S:
            self._wait_in_line()
        else:
            self._finish()

    def _finish(self) -> None:
        """Carry out what a closed connection left, for as long as the turn is not over."""
        if self._waits == _LEFT:
            self._turn.left -= 1
        self._waits = _FREE
        connection = self._connection
        began_s, processor_s = self._turn.seconds(), self._turn.processor_seconds()
        unread, self._unread = self._unread, []
        with suppress(RemoteError):
            commands = connection.receive_data(b"".join(unread))
            self._waiting += [command for command in commands if command.flag & ONEWAY_FLAG]
        connection.discard()
        self._turn_commands = 1
        self._carry_out_waiting(began_s, processor_s)
        self._count()

    def _count(self) -> None:
        """Report how many bytes wait here: an incomplete frame, reads, and commands."""
        held_bytes = self._connection.buffered_bytes + len(self._waiting) * COMMAND_BYTES
        for data in self._unread:
            held_bytes += len(data)
        if held_bytes != self._held_bytes:
            self._held_bytes = held_bytes
            self._incomplete_frames.holds(self, held_bytes)
