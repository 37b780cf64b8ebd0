"""Bytes on their way into a channel: the commands they complete are carried out, and answered, read by read.

All commands of one read are dispatched together and their answers written together, unless these are many and large:
then the rest of the commands waits until the peer has read. Malformed bytes end the connection with a log line and
without an answer, as ``NettyDecoder`` does: after them the stream has no frame boundaries any more.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from typing import Final, Protocol

from gateway.remoting.channel import Channel
from gateway.remoting.flush_group import FlushGroup
from gateway.remoting.incomplete_frames import IncompleteFrames
from gateway.telemetry.logs import EventLog
from wire.command import ONEWAY_FLAG, RemotingCommand
from wire.connection import Connection
from wire.errors import RemoteError
from wire.quick.whole import WHOLE_HEADERS

log = EventLog("remoting")

TURN_COMMANDS: Final = 8
"""So many are carried out before it is seen whether the peer keeps up with the answers (8 pulls: up to 2 MiB)."""
TURN_S: Final = 0.02
"""Commands of one read that took this long together let other connections have their turn before the next."""


class Commands(Protocol):
    """Where commands go; ``Dispatch`` is one."""

    def commands(self, channel: Channel, commands: list[RemotingCommand]) -> None:
        """All commands of one read; never raises."""


class Input:
    """What comes in over one channel. A plain class: ``received`` runs for every read."""

    __slots__ = (
        "_channel",
        "_commands",
        "_connection",
        "_flush_group",
        "_held_bytes",
        "_incomplete_frames",
        "_turn_commands",
        "_waiting",
    )

    def __init__(
        self,
        channel: Channel,
        commands: Commands,
        flush_group: FlushGroup,
        incomplete_frames: IncompleteFrames,
        max_frame_bytes: int,
    ) -> None:
        self._channel = channel
        self._commands = commands
        self._flush_group = flush_group
        self._incomplete_frames = incomplete_frames
        self._connection = Connection(max_frame_bytes, WHOLE_HEADERS)
        self._held_bytes = 0
        self._waiting: list[RemotingCommand] = []
        self._turn_commands = TURN_COMMANDS
        channel.on_close(self._discard)

    def received(self, data: bytes) -> None:
        """Some bytes came: dispatch the commands they complete, write what those answered at once."""
        channel = self._channel
        if channel.closed:
            return
        channel.active = True
        connection = self._connection
        try:
            commands = connection.receive_data(data)
        except RemoteError:  # also kept as connection.failure
            commands = []
        if len(commands) > TURN_COMMANDS or self._waiting:
            self._waiting += commands
            if len(self._waiting) == len(commands):  # else they wait for room
                self._carry_out_waiting()
        elif commands:
            flush_group = self._flush_group
            flush_group.hold()
            self._commands.commands(channel, commands)
            flush_group.flush()
        failure = connection.failure
        if failure is not None:
            failure.__traceback__ = None  # its frames know this connection: a circle, which would stay
            if not channel.closed:
                log.warning("malformed bytes", remote=channel.remote_text, error=str(failure))
            channel.close("malformed bytes", is_logged=True)
        # Last, since dispatch may have closed the channel; most reads end with a frame and change nothing here.
        if connection.buffered_bytes != self._held_bytes:
            self._holds(connection.buffered_bytes)

    def _carry_out_waiting(self) -> None:
        """Go on with the commands that wait, for as long as the peer keeps up, and others need not wait for long."""
        channel, waiting, flush_group = self._channel, self._waiting, self._flush_group
        began_s = channel.seconds()
        flush_group.hold()
        while waiting and not channel.closed:
            count = self._turn_commands
            turn = waiting[:count]
            del waiting[:count]
            self._commands.commands(channel, turn)
            is_over = channel.seconds() - began_s >= TURN_S
            # Costly ones are carried out one at a time, until as many as usual take no longer.
            self._turn_commands = 1 if is_over else min(2 * count, TURN_COMMANDS)
            if channel.is_full:
                flush_group.flush()
                if channel.is_full and waiting:
                    channel.pause_reading(self._carry_out_waiting)
                    return
                flush_group.hold()
            if is_over and waiting and not channel.closed:
                channel.let_others(self._carry_out_waiting)
                break
        flush_group.flush()

    def drop(self, reason: str) -> None:
        """Close at once: all connections together hold too much of incomplete frames."""
        self._channel.abort(reason)

    def _discard(self, channel: Channel) -> None:
        """The connection is over. Of what waits for room, only those are carried out who expect no answer, such as the
        last outcomes of a producer: others learn that they got none, and ask again.
        """
        self._connection.discard()
        waiting, self._waiting = self._waiting, []
        unasked = [command for command in waiting if command.flag & ONEWAY_FLAG]
        if unasked:
            self._commands.commands(channel, unasked)
        if self._held_bytes:
            self._holds(0)

    def _holds(self, held_bytes: int) -> None:
        self._held_bytes = held_bytes
        self._incomplete_frames.holds(self, held_bytes)
