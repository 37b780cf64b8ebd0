"""A whole broker with its real store in a directory: threads run at once, time is moved by hand.

Tests read as what clients send and what comes back. ``crash_image`` is the directory a kill would leave.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from twisted.internet.defer import ensureDeferred

from gateway.broker.door import RequestAdmission
from gateway.broker.jobs import jobs
from gateway.broker.parts import BrokerParts, Surroundings
from gateway.broker.request_loader import load_requests
from gateway.broker.upkeep.upkeep import Upkeep
from gateway.in_thread import InThread, in_this_thread
from gateway.remoting.dispatch import Dispatch
from gateway.settings import Settings
from gateway.tests.left_open import left_open
from gateway.tests.membership.subscriptions import subscription
from gateway.tests.remoting.conversation import Conversation, Peer
from wire.bodies.heartbeat import ConsumerData, HeartbeatData
from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.headers.pull import PullMessageRequest
from wire.headers.send import SendMessageRequest
from wire.message.flags import PullFlag
from wire.message.properties import build_properties
from wire.message.record import StoredMessage, parse_records

START_MS = 1_750_000_000_000
SMALL_FILES: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 20_000,
    "max_hash_slot_num": 100,
    "max_index_num": 1_000,
    "disk_measured_bytes": 0,
}
LEVELS = "1s 5s 10s 30s"


def small_settings(directory: Path, **changed: Any) -> Settings:
    """Settings of a broker whose files fit a test."""
    values = {"broker_name": "broker-a", "message_delay_level": LEVELS, **SMALL_FILES, **changed}
    return replace(Settings(), store_path_root_dir=directory, **values)


class WholeBroker:
    """Every part of a broker, started."""

    def __init__(self, directory: Path, start_ms: int = START_MS, **changed: Any) -> None:
        self.directory = directory
        self._start_ms = start_ms
        self._changed = changed
        self.in_thread: InThread = in_this_thread
        self.in_log_thread: InThread = in_this_thread
        settings = small_settings(directory, **changed)
        dispatch = Dispatch(RequestAdmission(settings).admit, lambda code, slave: self.parts.refusal_of(code, slave))
        self.conversation = Conversation(dispatch, proxy_addresses=settings.proxy_addresses)
        self.reactor = self.conversation.reactor
        self.parts = BrokerParts(
            settings,
            Surroundings(
                reactor=self.reactor,
                clock=self.clock,
                soon=lambda function: self.reactor.callLater(0, function),  # type: ignore[arg-type]
                in_log_thread=lambda work, done: self.in_log_thread(work, done),
                in_thread=lambda work, done: self.in_thread(work, done),
                listen_port=lambda: 10911,
            ),
        )
        left_open(self.parts.transactions._journal.close)
        self.parts.open()
        load_requests(self.parts, self.conversation.dispatch)
        self.parts.start()
        self._upkeep = Upkeep(self.reactor, jobs(self.parts))
        self._upkeep.start()

    # -- time and life --------------------------------------------------------------------------------------

    def clock(self) -> int:
        """Epoch milliseconds; they pass with the reactor's time."""
        return self._start_ms + round(self.reactor.seconds() * 1000)

    def turn(self) -> None:
        """Let the reactor do what is due now."""
        for _ in range(4):
            self.reactor.advance(0)

    def wait(self, seconds: float) -> None:
        """Let time pass in small steps."""
        self.reactor.pump([0.25] * round(seconds * 4))
        self.turn()

    def stop(self) -> None:
        """Stop in the order of the service."""
        ended: list[object] = []
        ensureDeferred(self._upkeep.stop()).addCallback(lambda _: ended.append("upkeep"))
        ensureDeferred(self.parts.stop()).addCallback(lambda _: ended.append("parts"))
        self.turn()
        assert ended == ["upkeep", "parts"]
        self.parts.close()

    def restart(self) -> WholeBroker:
        """Stop, and start anew from the same directory."""
        self.stop()
        return WholeBroker(self.directory, self.clock(), **self._changed)

    def crash_image(self, to: Path) -> WholeBroker:
        """Start from a copy of the directory as it is now, as after a kill."""
        shutil.copytree(self.directory, to)
        return WholeBroker(to, self.clock(), **self._changed)

    # -- clients --------------------------------------------------------------------------------------------

    def connect(self) -> Peer:
        """A client."""
        return self.conversation.connect()

    def ask(self, peer: Peer, code: int, header: Any = None, body: bytes = b"", **rest: Any) -> RemotingCommand:
        """One request and its one answer."""
        answers = self.ask_all(peer, code, header, body, **rest)
        assert len(answers) == 1, answers
        return answers[0]

    def ask_all(
        self, peer: Peer, code: int, header: Any = None, body: bytes = b"", **rest: Any
    ) -> list[RemotingCommand]:
        """One request and whatever is answered in this moment."""
        answers = peer.ask_all(code, header, body, **rest)
        self.turn()
        return answers + peer.received()

    def send(self, peer: Peer, topic: str = "orders", body: bytes = b"hello", **changed: Any) -> RemotingCommand:
        """Send a message; ``changed`` are header fields, and ``version`` or ``code`` of the command."""
        command = {name: changed.pop(name) for name in ("version", "oneway") if name in changed}
        code = changed.pop("code", RequestCode.SEND_MESSAGE)
        return self.ask(peer, code, sending(topic, **changed), body, **command)

    def subscribe(self, peer: Peer, group: str = "group", topic: str = "orders", expression: str = "*") -> None:
        """Send a consumer's heartbeat."""
        wanted = subscription(topic, expression=expression)
        data = HeartbeatData("client-1", consumers=(ConsumerData(group, subscriptions=(wanted,)),))
        self.ask_all(peer, RequestCode.HEART_BEAT, body=data.build())

    def messages(self, topic: str, queue_id: int = 0, offset: int = 0) -> list[StoredMessage]:
        """Everything a queue holds from an offset on."""
        found = self.parts.store.get_messages(topic, queue_id, offset, 1_000, 1 << 20)
        return parse_records(b"".join(found.parts))


def sending(topic: str = "orders", *, properties: dict[str, str] | str | None = None, **changed: Any) -> Any:
    """The header of a send as a stock client makes it."""
    text = build_properties(properties).decode() if isinstance(properties, dict) else properties
    values: dict[str, Any] = {
        "producer_group": "producers",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": START_MS - 5,
        "flag": 0,
        "properties": text,
    }
    return SendMessageRequest(**{**values, **changed})


def pulling(offset: int = 0, **changed: Any) -> PullMessageRequest:
    """The header of a pull as a lite-pull consumer makes it: with its own subscription, not to be held."""
    values: dict[str, Any] = {
        "consumer_group": "group",
        "topic": "orders",
        "queue_id": 0,
        "queue_offset": offset,
        "max_msg_nums": 32,
        "sys_flag": PullFlag.SUBSCRIPTION,
        "commit_offset": 0,
        "suspend_timeout_millis": 15_000,
        "subscription": "*",
        "sub_version": 1,
    }
    return PullMessageRequest(**{**values, **changed})
