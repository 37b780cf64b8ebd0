"""The moment at which a sender is answered: after the write, on disk, or never."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.store.errors import WriteFailed
from gateway.store.log.log_batch import LogBatch
from gateway.tests.broker.send_requests import BATCH, batch, short
from gateway.tests.broker.whole_broker import WholeBroker, sending
from wire.codes import RequestCode, ResponseCode
from wire.message.message_id import parse_offset_message_id


class HeldBroker(WholeBroker):
    """A broker whose log thread works when told to."""

    def __init__(self, directory: Path, **changed: Any) -> None:
        super().__init__(directory, **changed)
        self.works: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self.in_log_thread = lambda work, done: self.works.append((work, done))

    def work(self) -> None:
        work, done = self.works.popleft()
        done(work())
        self.turn()


@pytest.mark.parametrize("wait", ["false", "FALSE", "no"])
def test_a_sender_that_does_not_wait_is_answered_when_written_and_consumers_see_it_when_durable(
    tmp_path: Path, wait: str
) -> None:
    broker = HeldBroker(tmp_path)
    client = broker.connect()
    assert broker.ask_all(client, RequestCode.SEND_MESSAGE, sending(properties={"WAIT": wait}), b"x") == []
    broker.work()
    (answer,) = client.received()
    assert (answer.code, answer.ext_fields["queueOffset"]) == (ResponseCode.SUCCESS, "0")
    assert broker.messages("orders") == []
    broker.work()
    assert client.received() == []
    (found,) = broker.messages("orders")
    assert found.property_map["WAIT"] == wait


@pytest.mark.parametrize(
    "properties",
    [{"WAIT": "true"}, {"WAIT": "TRUE"}, {}, {"WAIT": "false", "TRAN_MSG": "true", "PGROUP": "g", "UNIQ_KEY": "k"}],
)
def test_others_and_half_messages_are_answered_when_they_are_on_disk(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    broker = HeldBroker(tmp_path)
    client = broker.connect()
    broker.ask_all(client, RequestCode.SEND_MESSAGE, sending(properties=properties), b"x")
    broker.work()  # written, in a new file
    assert client.received() == []
    broker.work()
    assert [answer.code for answer in client.received()] == [ResponseCode.SUCCESS]


def test_a_batch_that_does_not_wait_is_answered_when_written(tmp_path: Path) -> None:
    broker = HeldBroker(tmp_path)
    client = broker.connect()
    header = short(sending(batch=True, properties={"WAIT": "false"}))
    broker.ask_all(client, BATCH, header, batch((b"a", {}), (b"b", {})))
    broker.work()
    (answer,) = client.received()
    assert (answer.code, answer.ext_fields["queueOffset"]) == (ResponseCode.SUCCESS, "0")
    assert broker.messages("orders") == []
    broker.work()
    assert len(broker.messages("orders")) == 2


def test_a_disk_that_takes_too_long_is_answered_with_the_messages_place(tmp_path: Path) -> None:
    broker = HeldBroker(tmp_path, sync_flush_timeout_ms=2_000)
    client = broker.connect()
    broker.ask_all(client, RequestCode.SEND_MESSAGE, sending(), b"x")
    broker.work()  # written, in a new file
    broker.wait(1.75)
    assert client.received() == []
    broker.wait(0.25)
    (answer,) = client.received()
    assert (answer.code, answer.remark) == (ResponseCode.FLUSH_DISK_TIMEOUT, None)
    assert answer.ext_fields["queueOffset"] == "0"
    assert parse_offset_message_id(answer.ext_fields["msgId"])[1] == 0
    broker.work()
    assert client.received() == []
    assert [message.body for message in broker.messages("orders")] == [b"x"]


def test_a_store_that_failed_says_so_to_every_sender(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path)
    client = broker.connect()
    broker.send(client)
    why = "sync of the commit log failed: [Errno 5] Input/output error"

    def fails(_: LogBatch) -> None:
        raise WriteFailed(why)

    broker.parts.store._group._sync = fails  # type: ignore[assignment]
    first, second = broker.send(client), broker.send(client)
    reason = f"the store failed: {why}; restart the broker to recover"
    assert (first.code, first.remark) == (ResponseCode.SYSTEM_ERROR, f"UNKNOWN_ERROR: {reason}")
    assert (second.code, second.remark) == (
        ResponseCode.SERVICE_NOT_AVAILABLE,
        f"service not available now: {reason}",
    )
