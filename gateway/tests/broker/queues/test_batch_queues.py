"""Topics with batch queues: a batch is one record, and its messages have an offset each."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gateway.tests.broker.whole_broker import WholeBroker, pulling, sending
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.pop import PopMessageRequest
from wire.headers.send import ConsumerSendMsgBackRequest
from wire.message.batch import BatchPart, build_batch, parse_batch
from wire.message.flags import PullFlag, SysFlag
from wire.message.record import StoredMessage, parse_records


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    broker = WholeBroker(tmp_path / "store", enable_property_filter=True)
    config = TopicConfig("batches", 1, 1, attributes={"queue.type": "BatchCQ"})
    broker.parts.topics.put(config)
    return broker


def send_batch(broker: WholeBroker, *bodies: bytes, topic: str = "batches", **properties: str) -> RemotingCommand:
    body = build_batch([BatchPart(0, each, b"") for each in bodies])
    header = sending(topic, batch=True, properties=properties)
    return broker.ask(broker.connect(), RequestCode.SEND_MESSAGE, header, body)


def pull(broker: WholeBroker, offset: int, **changed: object) -> tuple[list[StoredMessage], int]:
    answer = broker.ask(broker.connect(), RequestCode.PULL_MESSAGE, pulling(offset, topic="batches", **changed))
    return parse_records(answer.body), int(answer.ext_fields["nextBeginOffset"])


def inner(record: StoredMessage) -> list[bytes]:
    if record.sys_flag & SysFlag.INNER_BATCH:
        return [part.body for part in parse_batch(record.body)]
    return [record.body]


def everything(broker: WholeBroker) -> list[tuple[int, list[bytes]]]:
    return [(record.queue_offset, inner(record)) for record in broker.messages("batches")]


SENT = [(0, [b"a", b"b", b"c"]), (3, [b"d"]), (4, [b"e", b"f"]), (6, [b"g"])]


def fill(broker: WholeBroker) -> None:
    send_batch(broker, b"a", b"b", b"c")
    broker.send(broker.connect(), "batches", b"d")
    send_batch(broker, b"e", b"f")
    send_batch(broker, b"g")


def test_a_batch_is_one_record_with_an_offset_for_each_message(broker: WholeBroker) -> None:
    answer = send_batch(broker, b"a", b"b", UNIQ_KEY="unique")
    assert answer.code == ResponseCode.SUCCESS
    assert (answer.ext_fields["queueOffset"], answer.ext_fields["batchUniqId"]) == ("0", "unique")
    assert "," not in answer.ext_fields["msgId"]
    assert send_batch(broker, b"c").ext_fields["queueOffset"] == "2"
    first, second = broker.messages("batches")
    assert first.sys_flag & 0xC0 == second.sys_flag & 0xC0 == 0xC0
    assert [first.property_map[name] for name in ("INNER_BASE", "INNER_NUM", "UNIQ_KEY")] == ["0", "2", "unique"]
    assert [second.property_map[name] for name in ("INNER_BASE", "INNER_NUM")] == ["2", "1"]
    assert broker.parts.store.max_offset("batches", 0) == 3


@pytest.mark.parametrize("subscription", ["*", "SQL"])
@pytest.mark.parametrize("count", [1, 2, 3, 32])
def test_a_pull_never_ends_within_a_batch_and_gives_the_whole_one(
    broker: WholeBroker, count: int, subscription: str
) -> None:
    fill(broker)
    sql = {"subscription": "INNER_NUM > 1", "expression_type": "SQL92"}
    offset, found = 0, []
    while offset < 7:
        records, offset = pull(broker, offset, max_msg_nums=count, **(sql if subscription == "SQL" else {}))
        found += [(record.queue_offset, inner(record)) for record in records]
    assert found == (SENT if subscription == "*" else [SENT[0], SENT[2]])
    assert pull(broker, 1, max_msg_nums=1)[0][0].queue_offset == 0
    assert pull(broker, 2, max_msg_nums=1)[1] == 3


def test_a_batch_is_read_once_wherever_it_lies_in_a_large_read(broker: WholeBroker) -> None:
    for count in (62, 3, 70, 130, 1, 1, 200):
        if count in (3, 130):
            send_batch(broker, *[b"inner"] * count)
        else:
            for _ in range(count):
                broker.send(broker.connect(), "batches", b"one")
    offsets = [record.queue_offset for record in broker.messages("batches")]
    assert offsets == [*range(62), 62, *range(65, 135), 135, *range(265, 467)]


def test_a_kill_a_stop_and_lost_queues_leave_the_offsets(broker: WholeBroker, tmp_path: Path) -> None:
    fill(broker)
    for again in (broker.crash_image(tmp_path / "killed"), broker.restart()):
        assert everything(again) == SENT
        assert send_batch(again, b"h", b"i").ext_fields["queueOffset"] == "7"
    again.stop()
    shutil.rmtree(again.directory / "consumequeue" / "batches")
    rebuilt = WholeBroker(again.directory)
    assert everything(rebuilt) == [*SENT, (7, [b"h", b"i"])]
    assert rebuilt.parts.store.max_offset("batches", 0) == 9
    assert rebuilt.parts.store.mend_queue("batches", 0, 0, 9) == 0


def test_one_message_of_a_batch_is_sent_back_by_its_client(broker: WholeBroker) -> None:
    fill(broker)
    (record, *_) = broker.messages("batches")
    header = ConsumerSendMsgBackRequest(offset=record.commit_log_offset, group="group", delay_level=0)
    answer = broker.ask(broker.connect(), RequestCode.CONSUMER_SEND_MSG_BACK, header)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL


def test_batches_cannot_be_popped(broker: WholeBroker) -> None:
    fill(broker)
    header = PopMessageRequest(consumer_group="group", topic="batches", max_msg_nums=8, invisible_time=60_000)
    answer = broker.ask(broker.connect(), RequestCode.POP_MESSAGE, header)
    assert (answer.code, "pull, do not pop" in str(answer.remark)) == (ResponseCode.INVALID_PARAMETER, True)


def test_a_held_pull_gets_the_batch(broker: WholeBroker) -> None:
    client = broker.connect()
    header = pulling(topic="batches", sys_flag=PullFlag.SUBSCRIPTION | PullFlag.SUSPEND)
    assert broker.ask_all(client, RequestCode.PULL_MESSAGE, header) == []
    send_batch(broker, b"a", b"b")
    (answer,) = client.received()
    assert int(answer.ext_fields["nextBeginOffset"]) == 2


def test_elsewhere_the_flags_of_a_batch_are_not_taken_from_clients(broker: WholeBroker) -> None:
    client = broker.connect()
    broker.send(client, body=b"a", sys_flag=0xC0, properties={"INNER_NUM": "5", "INNER_BASE": "0"})
    send_batch(broker, b"b", b"c", topic="orders")
    assert [message.sys_flag & 0xC0 for message in broker.messages("orders")] == [0, 0, 0]
    assert broker.parts.store.max_offset("orders", 0) == 3
