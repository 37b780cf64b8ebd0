"""Timer messages of a whole broker: at their millisecond, once, also after a kill, and with Apache's files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from gateway.metadata.names import WHEEL_TIMER_TOPIC
from gateway.schedule import timer_log
from gateway.tests.broker.whole_broker import START_MS, WholeBroker
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.disk.timer_checkpoint import TimerCheckpoint
from wire.disk.timer_log import NONE
from wire.headers.send import RecallMessageRequest
from wire.message.record import StoredMessage, parse_records

SMALL_LOG: dict[str, Any] = {"mapped_file_size_timer_log": 4096, "recall_message_enable": True}


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store", **SMALL_LOG)


def send(broker: WholeBroker, body: bytes = b"x", **properties: Any) -> RemotingCommand:
    answer = broker.send(broker.connect(), "orders", body, properties=properties)
    broker.turn()
    return answer


def later(broker: WholeBroker, milliseconds: int) -> str:
    return str(broker.clock() + milliseconds)


def pass_time(broker: WholeBroker, milliseconds: int) -> None:
    """Let time pass, a step at a time, each with what is due in it."""
    for _ in range(milliseconds // 10):
        broker.reactor.advance(0.010)
        broker.turn()
    broker.reactor.advance(1e-6)  # sums of hundredths fall short of a call's time
    broker.turn()


def read(broker: WholeBroker, topic: str = "orders") -> list[StoredMessage]:
    found = []
    for queue_topic, queue_id in broker.parts.store.queues():
        if queue_topic == topic:
            result = broker.parts.store.get_messages(topic, queue_id, 0, 10_000, 1 << 24)
            found += [message for part in result.parts for message in parse_records(part)]
    return sorted(found, key=lambda message: message.commit_log_offset)


def bodies(broker: WholeBroker) -> list[bytes]:
    return [message.body for message in read(broker)]


def recall(broker: WholeBroker, handle: str, topic: str = "orders") -> RemotingCommand:
    header = RecallMessageRequest(producer_group="g", topic=topic, recall_handle=handle)
    return broker.ask(broker.connect(), RequestCode.RECALL_MESSAGE, header)


def test_a_message_is_delivered_at_its_millisecond_and_not_before(broker: WholeBroker) -> None:
    assert send(broker, b"one", TIMER_DELIVER_MS=later(broker, 2_340)).code == ResponseCode.SUCCESS
    pass_time(broker, 2_330)
    assert bodies(broker) == []
    pass_time(broker, 10)
    (message,) = read(broker)
    assert (message.body, message.stored_at_ms) == (b"one", START_MS + 2_340)
    properties = message.property_map
    assert properties["TIMER_OUT_MS"] == str(START_MS + 2_000)
    assert properties["TIMER_DEQUEUE_MS"] == str(START_MS + 2_340)
    assert properties["REAL_TOPIC"] == "orders"
    assert properties["REAL_QID"] == "0"


@pytest.mark.parametrize("properties", [{"TIMER_DELAY_SEC": "3"}, {"TIMER_DELAY_MS": "3000"}])
def test_delays_count_from_the_send(broker: WholeBroker, properties: dict[str, Any]) -> None:
    pass_time(broker, 550)
    send(broker, **properties)
    pass_time(broker, 2_990)
    assert bodies(broker) == []
    pass_time(broker, 10)
    assert [message.stored_at_ms for message in read(broker)] == [START_MS + 3_550]


def test_many_of_one_second_come_in_the_order_of_their_times(broker: WholeBroker) -> None:
    for number in range(300):
        send(broker, b"%d" % number, TIMER_DELIVER_MS=str(START_MS + 5_000 + number * 37 % 1_000))
    pass_time(broker, 6_500)
    found = read(broker)
    times = [int(message.property_map["TIMER_DELIVER_MS"]) for message in found]
    assert times == sorted(times)
    assert all(0 <= message.stored_at_ms - due <= 10 for message, due in zip(found, times, strict=True))
    assert sorted(message.body for message in found) == sorted(b"%d" % number for number in range(300))


def test_a_message_whose_time_is_over_goes_at_once(broker: WholeBroker) -> None:
    past: list[dict[str, Any]] = [
        {"TIMER_DELIVER_MS": str(START_MS - 1)},
        {"TIMER_DELAY_MS": "-5"},
        {"TIMER_DELAY_SEC": "0"},
    ]
    for properties in past:
        assert send(broker, **properties).code == ResponseCode.SUCCESS
    assert len(bodies(broker)) == 3


def test_a_restart_changes_nothing(broker: WholeBroker) -> None:
    for number in range(200):
        send(broker, b"%d" % number, TIMER_DELIVER_MS=later(broker, 1_000 + number * 25))
    pass_time(broker, 2_510)
    before = bodies(broker)
    again = broker.restart()
    pass_time(again, 6_000)
    after = bodies(again)
    assert after[: len(before)] == before
    assert sorted(after) == sorted(b"%d" % number for number in range(200))


def test_a_kill_neither_loses_nor_doubles(broker: WholeBroker, tmp_path: Path) -> None:
    for number in range(200):
        send(broker, b"%d" % number, TIMER_DELIVER_MS=later(broker, 500 + number * 25))
        pass_time(broker, 10)
    for number in range(8):
        pass_time(broker, 470)
        broker = broker.crash_image(tmp_path / f"image{number}")
    pass_time(broker, 3_000)
    assert sorted(bodies(broker)) == sorted(b"%d" % number for number in range(200))


def test_messages_that_are_overdue_at_the_start_go_at_once(broker: WholeBroker) -> None:
    for number in range(50):
        send(broker, b"%d" % number, TIMER_DELIVER_MS=later(broker, 1_000 + number * 50))
    broker.stop()
    later_broker = WholeBroker(broker.directory, broker.clock() + 3_600_000, **SMALL_LOG)
    pass_time(later_broker, 50)
    assert bodies(later_broker) == [b"%d" % number for number in range(50)]


def test_a_message_can_be_taken_back(broker: WholeBroker) -> None:
    answer = send(broker, b"no", TIMER_DELIVER_MS=later(broker, 5_000))
    send(broker, b"yes", TIMER_DELIVER_MS=later(broker, 5_000))
    again = recall(broker, answer.ext_fields["recallHandle"])
    assert again.code == ResponseCode.SUCCESS
    assert again.ext_fields["msgId"] == answer.ext_fields["transactionId"]
    pass_time(broker, 6_000)
    assert bodies(broker) == [b"yes"]
    late = recall(broker, answer.ext_fields["recallHandle"])
    assert late.code == ResponseCode.ILLEGAL_OPERATION


def test_a_message_taken_back_stays_so_after_a_kill(broker: WholeBroker, tmp_path: Path) -> None:
    answer = send(broker, b"no", TIMER_DELIVER_MS=later(broker, 2_500))
    recall(broker, answer.ext_fields["recallHandle"])
    pass_time(broker, 2_000)
    broker = broker.crash_image(tmp_path / "image")
    pass_time(broker, 2_000)
    assert bodies(broker) == []


def test_a_message_taken_back_stays_so_when_its_time_passed_while_a_killed_broker_was_down(
    broker: WholeBroker, tmp_path: Path
) -> None:
    answer = send(broker, b"no", TIMER_DELIVER_MS=later(broker, 3_500))
    pass_time(broker, 2_000)
    assert broker.parts.timers is not None
    assert broker.parts.timers._files.load().queue_offset == 1, "the message is in the files, what takes it back is not"
    recall(broker, answer.ext_fields["recallHandle"])
    shutil.copytree(broker.directory, tmp_path / "image")
    again = WholeBroker(tmp_path / "image", broker.clock() + 10_000, **SMALL_LOG)
    pass_time(again, 2_000)
    assert bodies(again) == []


def test_far_messages_are_stored_again_on_their_way(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", timer_roll_window_slot=10, **SMALL_LOG)
    send(broker, b"far", TIMER_DELAY_SEC="32")
    pass_time(broker, 31_990)
    assert bodies(broker) == []
    pass_time(broker, 20)
    (message,) = read(broker)
    assert int(message.property_map["TIMER_ROLL_TIMES"]) >= 2
    assert message.stored_at_ms == START_MS + 32_000


def test_the_checkpoint_says_where_another_broker_goes_on(broker: WholeBroker) -> None:
    for number in range(10):
        send(broker, TIMER_DELIVER_MS=later(broker, 1_000 + number * 100))
    pass_time(broker, 1_550)
    broker.stop()
    found = TimerCheckpoint.parse((broker.directory / "config" / "timercheck").read_bytes())
    assert found.read_to_ms == START_MS + 2_000
    assert found.queue_offset == found.master_queue_offset == 10
    assert found.log_flushed > 10 * 52
    assert (broker.directory / "timerwheel").stat().st_size == 38_707_200


def test_after_another_broker_its_timer_log_counts(broker: WholeBroker) -> None:
    for number in range(10):
        send(broker, b"%d" % number, TIMER_DELIVER_MS=later(broker, 2_050 + number * 200))
    pass_time(broker, 1_000)
    broker.stop()
    path = broker.directory / "config" / "timercheck"
    data = bytearray(path.read_bytes())
    data[0:8] = (START_MS + 3_000).to_bytes(8, "big")
    path.write_bytes(data)
    again = WholeBroker(broker.directory, broker.clock(), **SMALL_LOG)
    pass_time(again, 4_000)
    assert bodies(again) == [b"%d" % number for number in range(5, 10)]


def test_a_timer_log_that_is_lost_is_made_again(broker: WholeBroker) -> None:
    for number in range(10):
        send(broker, b"%d" % number, TIMER_DELIVER_MS=later(broker, 1_000 + number * 400))
    pass_time(broker, 2_000)
    before = bodies(broker)
    broker.stop()
    shutil.rmtree(broker.directory / "timerlog")
    again = WholeBroker(broker.directory, broker.clock(), **SMALL_LOG)
    pass_time(again, 5_000)
    assert sorted(bodies(again)) == sorted(b"%d" % number for number in range(10))
    assert len(before) < 10


def test_a_timer_log_that_is_lost_loses_nothing_that_a_stop_carried_over(broker: WholeBroker) -> None:
    for number in range(10):
        send(broker, b"%d" % number, TIMER_DELIVER_MS=later(broker, 1_000 + number * 100))
    send(broker, b"far", TIMER_DELIVER_MS=later(broker, 4_500))
    back = send(broker, b"no", TIMER_DELIVER_MS=later(broker, 4_500))
    recall(broker, back.ext_fields["recallHandle"])
    pass_time(broker, 1_550)
    assert len(bodies(broker)) == 6
    broker.stop()
    shutil.rmtree(broker.directory / "timerlog")
    again = WholeBroker(broker.directory, broker.clock() + 10_000, **SMALL_LOG)
    pass_time(again, 1_000)
    assert sorted(bodies(again)) == sorted([*(b"%d" % number for number in range(10)), b"far"])


def test_without_timer_messages_there_are_no_files(broker: WholeBroker) -> None:
    pass_time(broker, 3_000)
    broker.stop()
    names = {path.name for path in broker.directory.iterdir()} | {
        p.name for p in (broker.directory / "config").iterdir()
    }
    assert not names & {"timerlog", "timerwheel", "timercheck"}


def test_nothing_waits_when_all_is_delivered(broker: WholeBroker) -> None:
    send(broker, TIMER_DELAY_MS="1500")
    assert broker.parts.registry.watch is not None
    assert broker.parts.timers is not None
    assert broker.parts.timers.waiting == 1
    assert broker.parts._oldest_pending() is not None
    pass_time(broker, 5_000)
    assert broker.parts.timers.waiting == 0
    assert broker.parts._oldest_pending() is None
    assert NONE == -1
    assert broker.parts.store.max_offset(WHEEL_TIMER_TOPIC, 0) == 1


def test_while_the_timer_log_takes_no_entries_further_messages_are_refused(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would wait in memory only, without a limit; what needs not wait is taken."""
    monkeypatch.setattr(timer_log, "MAX_UNWRITTEN_BYTES", 0)
    refused = send(broker, TIMER_DELIVER_MS=later(broker, 5_000))
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "timer log" in (refused.remark or "")
    assert send(broker, b"now", TIMER_DELIVER_MS=later(broker, -1)).code == ResponseCode.SUCCESS
    assert send(broker, b"plain").code == ResponseCode.SUCCESS
    assert bodies(broker) == [b"now", b"plain"]
