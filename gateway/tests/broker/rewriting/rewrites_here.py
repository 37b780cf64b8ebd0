"""The rewriting of messages by this broker, asked with the requests of ``rewrites``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gateway.tests.broker.rewriting.rewrites import Answer, Row, deliveries
from gateway.tests.broker.whole_broker import WholeBroker
from wire.codes import ResponseCode


class Asked:
    """A client of a whole broker."""

    def __init__(self, broker: WholeBroker) -> None:
        self._broker = broker
        self._peer = broker.connect()
        self.address = self._peer.channel.remote
        self.pushed: list[tuple[int, Mapping[str, str]]] = []

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"", *, version: int = 479) -> Answer:
        """Send one request and return its answer; a request of the broker comes before it."""
        commands = self._broker.ask_all(self._peer, code, None, body, fields=fields, version=version)
        while not commands or not commands[-1].is_response:
            for command in commands:
                self.pushed.append((command.code, command.ext_fields))
                self._peer.send(command.response(ResponseCode.SUCCESS))
            self._broker.turn()
            commands = self._peer.received()
        answer = commands[-1]
        return Answer(answer.code, answer.ext_fields, answer.body, answer.remark or "")

    def wait(self, seconds: float) -> None:
        """Move the broker's time."""
        self._broker.wait(seconds)

    def now_ms(self) -> int:
        """The broker's time."""
        return self._broker.clock()


def delivered_here(directory: Path) -> dict[str, Row]:
    """Return the deliveries of this broker, by way."""
    broker = WholeBroker(directory, message_delay_level="1s 1s 1s 1s 1s 1s", recall_message_enable=True)
    rows = deliveries(Asked(broker))
    broker.stop()
    return rows
