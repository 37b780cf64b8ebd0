"""The broker's door: requests pass through the door to their handlers, and the door closes before the store does."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from gateway.remoting.channel import Channel
from gateway.remoting.dispatch import Dispatch
from wire.codes import ResponseCode
from wire.command import RemotingCommand


class Door:
    """Lets requests in until the broker stops; later requests are refused, so that clients try again elsewhere."""

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch = dispatch
        self._open = True

    def close(self) -> None:
        """Refuse requests from now on; answers to the broker's own questions still come in."""
        self._open = False

    def commands(self, channel: Channel, commands: list[RemotingCommand]) -> None:
        """Carry out or refuse all commands of one read."""
        if self._open:
            self._dispatch.commands(channel, commands)
            return
        self._dispatch.commands(channel, [command for command in commands if command.is_response])
        for command in commands:
            if not (command.is_response or command.is_oneway):
                channel.send(command.response(ResponseCode.SERVICE_NOT_AVAILABLE, "the broker is stopping"))
