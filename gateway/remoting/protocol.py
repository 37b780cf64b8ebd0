"""The Twisted protocol of one connection: it passes the transport's events to the channel and to the input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol as TypingProtocol

from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from gateway.remoting.channel import Channel
from gateway.remoting.input import Commands, IncompleteFrames, Input
from gateway.remoting.input_turn import InputTurn
from wire.connection import Connection


class ChannelOwner(TypingProtocol):
    """An owner of channels: a server or a client."""

    def open_channel(self, protocol: RemotingProtocol) -> Channel:
        """Return the channel for a transport that has just connected."""


class RemotingProtocol(Protocol):
    """One connection of a server or of a client."""

    channel: Channel | None = None

    def __init__(
        self,
        owner: ChannelOwner,
        commands: Commands,
        turn: InputTurn,
        incomplete_frames: IncompleteFrames,
        new_connection: Callable[[], Connection],
    ) -> None:
        self._owner = owner
        self._commands = commands
        self._turn = turn
        self._incomplete_frames = incomplete_frames
        self._new_connection = new_connection

    def connectionMade(self) -> None:  # noqa: N802 (Twisted's name)
        """Open the channel and its input, because the transport is ready."""
        self.channel = self._owner.open_channel(self)
        self.begin(Input(self.channel, self._commands, self._turn, self._incomplete_frames, self._new_connection()))

    def begin(self, own_input: Input) -> None:
        """Hand all reads to the input; called once, when the channel is open."""
        # Reads go to the compiled input directly; a method of this class, which cannot be compiled, would be slower.
        self.dataReceived = own_input.received  # type: ignore[method-assign]

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802 (Twisted's name)
        """Notify the channel that the transport is gone."""
        if self.channel is not None:
            self.channel.connection_lost(reason.getErrorMessage())
