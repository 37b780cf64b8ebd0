"""Consumers of one group in any order of events, with reads that wait for the disk, against a plain account of it.

Nothing is given out while someone has it, nothing comes after its acknowledgement was answered, nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gateway.in_thread import in_this_thread
from gateway.store.message_store import MessageStore
from gateway.tests.broker.popping import ACK, CHANGE, POP, Popped, messages, popping
from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.remoting.conversation import Peer
from wire.codes import ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import build_header

CLIENTS = 4
MESSAGES = 150
STEPS = 250
INVISIBLE_MS = 3_000


class Run:
    """One run: a broker, its clients, and what they know of each message."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = Random(seed)
        self.directory = directory
        self.is_slow = True
        self.kills = 0
        self.reads: list[Callable[[], None]] = []
        self.writes: list[Callable[[], None]] = []
        self.asked: dict[int, tuple[int, Any]] = {}
        self.held: list[Popped] = []
        self.hidden_until_ms: dict[bytes, int] = {}
        self.changing: set[bytes] = set()
        self.done: set[bytes] = set()
        self.perhaps_done: set[bytes] = set()
        self.opaque = 1_000
        self.sent = 0
        self.broker = WholeBroker(directory / "store", revive_queue_num=2, pop_dead_letters=False)
        self.clients = self.connect()

    def connect(self) -> list[Peer]:
        self.broker.in_thread = self.in_thread
        self.broker.in_log_thread = self.in_log_thread
        return [self.broker.connect() for _ in range(CLIENTS)]

    def in_thread(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        if self.is_slow:
            self.reads.append(lambda: in_this_thread(work, done))
        else:
            in_this_thread(work, done)

    def in_log_thread(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        if self.is_slow:
            self.writes.append(lambda: in_this_thread(work, done))
        else:
            in_this_thread(work, done)

    # -- what happens ---------------------------------------------------------------------------------------

    def step(self) -> None:
        kinds = [self.send, self.pop, self.pop, self.read, self.read, self.write, self.write, self.ack, self.ack]
        if self.random.random() < 0.01:
            self.kill()
        else:
            self.random.choice([*kinds, self.change, self.wait, self.leave])()
        self.broker.turn()
        self.listen()

    def ask(self, code: int, header: Any, about: Any) -> None:
        self.opaque += 1
        self.asked[self.opaque] = (code, about)
        self.random.choice(self.clients).send(
            RemotingCommand(code, opaque=self.opaque, ext_fields=build_header(header))
        )

    def send(self) -> None:
        if self.sent < MESSAGES:
            self.is_slow = False
            self.finish_writes()
            for _ in range(self.random.randrange(1, 8)):
                self.broker.send(self.broker.connect(), body=b"%d" % self.sent, queue_id=self.random.randrange(2))
                self.sent += 1
            self.is_slow = True

    def pop(self) -> None:
        count, poll_ms = self.random.choice([1, 2, 8]), self.random.choice([0, 2_000])
        self.ask(POP, popping(max_msg_nums=count, invisible_time=INVISIBLE_MS, poll_time=poll_ms), None)

    def ack(self) -> None:
        if self.held:
            message = self.held.pop(self.random.randrange(len(self.held)))
            self.perhaps_done.add(message.record.body)  # its answer may not arrive
            self.ask(ACK, message.acking(), message)

    def change(self) -> None:
        if self.held:
            message = self.held.pop(self.random.randrange(len(self.held)))
            self.changing.add(message.record.body)  # until it is answered nobody knows how long it is hidden
            self.ask(CHANGE, message.changing(self.random.choice([0, 500, 5_000])), message)

    def read(self) -> None:
        if self.reads:
            self.reads.pop(self.random.randrange(len(self.reads)))()

    def write(self) -> None:
        if self.writes:
            self.writes.pop(0)()

    def finish_writes(self) -> None:
        while self.writes:
            self.writes.pop(0)()
            self.broker.turn()

    def wait(self) -> None:
        self.broker.wait(self.random.choice([0.25, 1, 4]))

    def leave(self) -> None:
        place = self.random.randrange(CLIENTS)
        self.listen()
        self.clients[place].transport.loseConnection()
        self.clients[place] = self.broker.connect()

    def kill(self) -> None:
        self.kills += 1
        self.asked.clear()
        self.reads, self.writes = [], []
        self.is_slow = False
        self.broker = self.broker.crash_image(self.directory / f"killed-{self.kills}")
        self.is_slow = True
        self.clients = self.connect()

    # -- what clients hear ----------------------------------------------------------------------------------

    def listen(self) -> None:
        for client in self.clients:
            for answer in client.received():
                code, about = self.asked.pop(answer.opaque, (0, None))
                if code == POP and answer.code == ResponseCode.SUCCESS:
                    self.got(answer)
                elif code == ACK and answer.code == ResponseCode.SUCCESS:
                    self.done.add(about.record.body)
                elif code == CHANGE:
                    self.changed(about, answer)

    def got(self, answer: RemotingCommand) -> None:
        until_ms = int(answer.ext_fields["popTime"]) + INVISIBLE_MS
        for message in messages(answer):
            body = message.record.body
            assert body not in self.done, f"{body!r} came after it was acknowledged"
            if body not in self.changing:
                assert self.hidden_until_ms.get(body, 0) <= self.broker.clock(), f"{body!r} is given out twice at once"
            self.changing.discard(body)
            self.hidden_until_ms[body] = until_ms
            self.held.append(message)

    def changed(self, message: Popped, answer: RemotingCommand) -> None:
        body = message.record.body
        if answer.code == ResponseCode.SUCCESS and body in self.changing:
            self.changing.discard(body)
            fields = answer.ext_fields
            self.hidden_until_ms[body] = int(fields["popTime"]) + int(fields["invisibleTime"])

    def settle(self) -> None:
        """Everything that is left comes, however long that takes."""
        self.is_slow = False
        for _ in range(60):
            while self.reads:
                self.reads.pop(0)()
                self.broker.turn()
            self.finish_writes()
            self.listen()
            while self.held:
                self.ack()
                self.broker.turn()
            self.listen()
            if len(self.done) == self.sent:
                return
            self.broker.wait(1)
            self.ask(POP, popping(invisible_time=INVISIBLE_MS), None)
            self.broker.turn()
        lost = {b"%d" % number for number in range(self.sent)} - self.done - self.perhaps_done
        assert not lost


@pytest.mark.parametrize("seed", range(12))
def test_no_order_of_events_loses_or_doubles_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    run, read_now = Run(tmp_path, seed), MessageStore.get_messages_now
    is_cold = Random(seed)
    monkeypatch.setattr(
        MessageStore,
        "get_messages_now",
        lambda store, *rest: None if run.is_slow and is_cold.random() < 0.6 else read_now(store, *rest),
    )
    for _ in range(STEPS):
        run.step()
    run.settle()
    run.broker.wait(10)
    run.ask(POP, popping(invisible_time=INVISIBLE_MS), None)
    run.broker.turn()
    run.listen()  # asserts that nothing of it was acknowledged
    assert run.sent
