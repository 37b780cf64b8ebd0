"""Popping after kills and stops: what is open stays open, and what is done, reset or deleted stays so."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.takeover import CopyMark
from gateway.metadata.groups import SYSTEM_GROUPS, Groups
from gateway.settings.store import FlushDiskType
from gateway.tests.broker.popping import POP, ack, bodies, filled, pop, popping, reset
from gateway.tests.broker.whole_broker import WholeBroker
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.topics import TopicConfig
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.disk.revive_log import CheckPointRecord
from wire.headers.declare import build_header
from wire.headers.groups import DeleteSubscriptionGroupRequest
from wire.headers.topics import DeleteTopicRequest


@pytest.fixture
def broker(tmp_path: Path) -> WholeBroker:
    return WholeBroker(tmp_path / "store", pop_from_retry_probability=0)


# -- resets -----------------------------------------------------------------------------------------------------


def test_a_reset_sends_the_next_pop_back(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b", "c")
    for message in pop(broker, client):
        ack(broker, client, message)
    assert broker.ask(client, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset(1)).code == ResponseCode.SUCCESS
    assert bodies(pop(broker, client)) == [b"b", b"c"]


def test_a_reset_is_not_undone_by_older_pops_after_a_kill(broker: WholeBroker, tmp_path: Path) -> None:
    client = filled(broker, "a", "b", "c")
    for message in pop(broker, client):
        ack(broker, client, message)
    broker.ask(client, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset(1))
    killed = broker.crash_image(tmp_path / "killed")
    assert bodies(pop(killed, killed.connect())) == [b"b", b"c"]


def test_a_reset_while_a_pop_is_on_its_way_to_the_disk_holds_also_after_a_kill(
    broker: WholeBroker, tmp_path: Path
) -> None:
    client = filled(broker, "a", "b", "c")
    work: list[Callable[[], None]] = []
    broker.in_log_thread = lambda job, done: work.append(lambda: done(job()))
    client.send(_popping_command())
    broker.reactor.advance(0)
    broker.parts.offsets.reset("group", "orders", 0, 1)
    broker.parts.pops.reset("group", "orders", [(0, 1)])
    while work:
        work.pop(0)()
        broker.turn()
    assert broker.parts.offsets.query("group", "orders", 0) == 1
    killed = broker.crash_image(tmp_path / "killed")
    assert bodies(pop(killed, killed.connect())) == [b"b", b"c"]


# -- kills and stops --------------------------------------------------------------------------------------------


def _popping_command() -> RemotingCommand:
    return RemotingCommand(POP, ext_fields=build_header(popping()))


def test_a_kill_loses_nothing_that_is_open_and_forgets_nothing_that_is_done(
    broker: WholeBroker, tmp_path: Path
) -> None:
    client = filled(broker, "a", "b", "c")
    popped = pop(broker, client)
    ack(broker, client, popped[0])
    killed = broker.crash_image(tmp_path / "killed")
    client = killed.connect()
    assert pop(killed, client) == []
    assert ack(killed, client, popped[1]) == ResponseCode.SUCCESS
    killed.wait(11)
    assert bodies(pop(killed, client)) == [b"c"]


def _promoted(broker: WholeBroker, to: Path, **changed: Any) -> WholeBroker:
    """Start a copy of the log whose table of groups does not have the newest group yet."""
    shutil.copytree(broker.directory, to)
    for file in (to / "config").glob("subscriptionGroup.json*"):
        file.unlink()
    CopyMark(to).set()
    return WholeBroker(to, broker.clock(), **changed)


@pytest.mark.parametrize("creates", [True, False], ids=["automatic creation", "none"])
def test_popped_messages_come_again_though_the_table_of_groups_was_behind_the_log(
    broker: WholeBroker, tmp_path: Path, creates: bool
) -> None:
    client = filled(broker, "a", "b")
    pop(broker, client)
    promoted = _promoted(broker, tmp_path / "promoted", auto_create_subscription_group=creates)
    promoted.wait(11)  # nobody asks, and so makes the group
    assert bodies(pop(promoted, promoted.connect())) == [b"a", b"b"]


def test_popped_messages_come_again_though_the_table_of_groups_is_full(
    broker: WholeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = filled(broker, "a", "b")
    pop(broker, client)
    limits = Groups.__init__.__kwdefaults__
    assert limits is not None
    monkeypatch.setitem(limits, "max_groups", len(SYSTEM_GROUPS))
    promoted = _promoted(broker, tmp_path / "promoted")
    promoted.wait(11)
    assert bodies(pop(promoted, promoted.connect())) == [b"a", b"b"]
    again = promoted.restart()
    assert again.parts.groups.get("group") is not None
    again.stop()


def test_messages_popped_in_order_wait_for_a_group_that_the_table_lacks(broker: WholeBroker, tmp_path: Path) -> None:
    client = filled(broker, "a", "b", "c")
    first, *_ = pop(broker, client, order=True, max_msg_nums=2)
    assert ack(broker, client, first) == ResponseCode.SUCCESS
    promoted = _promoted(broker, tmp_path / "promoted", auto_create_subscription_group=False)
    client = promoted.connect()
    promoted.wait(60)
    assert promoted.ask(client, POP, popping(order=True)).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    promoted.parts.groups.put_all([SubscriptionGroupConfig(group_name="group")])
    assert bodies(pop(promoted, client, order=True)) == [b"b", b"c"]


def test_popped_messages_of_a_group_that_was_deleted_are_dropped(broker: WholeBroker, tmp_path: Path) -> None:
    client = filled(broker, "a", "b")
    pop(broker, client)
    broker.ask(client, RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteSubscriptionGroupRequest(group_name="group"))
    broker.stop()
    again = WholeBroker(broker.directory, broker.clock(), auto_create_subscription_group=False)
    again.wait(11)
    assert again.parts.groups.get("group") is None
    assert not len(again.parts.pops.check_points)


def test_messages_that_together_do_not_fit_a_file_of_the_log_come_again(tmp_path: Path) -> None:
    broker = WholeBroker(tmp_path / "store", mapped_file_size_commit_log=8_192)
    client = filled(broker, *("x" * 2_000 for _ in range(6)))
    assert len(pop(broker, client)) == 6
    broker.wait(11)
    assert len(pop(broker, client)) == 6


def test_what_came_again_before_a_kill_does_not_come_once_more(broker: WholeBroker, tmp_path: Path) -> None:
    client = filled(broker, "a")
    pop(broker, client)
    broker.wait(11)
    killed = broker.crash_image(tmp_path / "killed")
    client = killed.connect()
    (message,) = pop(killed, client)
    ack(killed, client, message)
    killed.wait(30)
    assert pop(killed, client) == []


def test_offsets_that_were_saved_before_are_moved_by_what_was_popped_since(broker: WholeBroker, tmp_path: Path) -> None:
    client = filled(broker, "a", "b", "c", "d")
    for message in pop(broker, client, max_msg_nums=1):
        ack(broker, client, message)
    broker.wait(6)  # saved
    for message in pop(broker, client, max_msg_nums=2):
        ack(broker, client, message)
    killed = broker.crash_image(tmp_path / "killed")
    assert bodies(pop(killed, killed.connect())) == [b"d"]


def test_an_orderly_stop_leaves_little_to_read(broker: WholeBroker) -> None:
    client = filled(broker, "a", "b")
    first, second = pop(broker, client)
    ack(broker, client, first)
    again = broker.restart()
    assert len(again.parts.pops.check_points) == 1
    client = again.connect()
    ack(again, client, second)
    last = again.restart()
    assert last.parts.pops.revive_log.rebuild(-1) == 0
    assert pop(last, last.connect()) == []


def test_a_start_after_a_power_failure_reads_only_what_came_after_the_saved_position(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With ASYNC_FLUSH: of the log only the flushed part is left, of tables everything that was written."""
    broker = WholeBroker(tmp_path / "store", flush_disk_type=FlushDiskType.ASYNC_FLUSH, revive_queue_num=1)
    client = filled(broker, *map(str, range(40)))
    for _ in range(40):
        (message,) = pop(broker, client, max_msg_nums=1)
        ack(broker, client, message)
        broker.wait(0.25)
    (kept,) = pop(broker, filled(broker, "kept"))
    broker.wait(6)
    pop(broker, filled(broker, "lost"))
    flushed = broker.parts.store.flushed_offset
    assert flushed < broker.parts.store.stored_end
    shutil.copytree(broker.directory, tmp_path / "failed")
    (log_file,) = (tmp_path / "failed" / "commitlog").iterdir()
    log_file.write_bytes(log_file.read_bytes()[:flushed].ljust(log_file.stat().st_size, b"\0"))
    caplog.set_level(logging.INFO, "gateway.pop")
    failed = WholeBroker(tmp_path / "failed", broker.clock())
    (found,) = [vars(record)["facts"] for record in caplog.records if record.message == "popped messages found"]
    assert found == {"records": 1, "open": 1}
    assert ack(failed, failed.connect(), kept) == ResponseCode.SUCCESS


def test_old_records_that_are_still_needed_are_written_again(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from gateway.delivery.pop import revive_log

    monkeypatch.setattr(revive_log, "MAX_REPLAY", 2)
    client = filled(broker, *"abcdefgh")
    (kept,) = pop(broker, client, max_msg_nums=1, invisible_time=600_000)
    queue = int(kept.words[3])
    for _ in range(7):
        for message in pop(broker, client, max_msg_nums=1):
            ack(broker, client, message)
    point = broker.parts.pops.check_points.first_open(queue)
    assert point is not None
    first = point.revive_offset
    for _ in range(10):
        broker.parts.pops.revive_log.append([point.record("broker-a")], (queue + 1) % 8, lambda _: None)
    broker.parts.pops.revive_log._last[queue] += 3
    broker.wait(2)
    assert point.revive_offset > first
    killed = broker.crash_image(tmp_path / "killed")
    killed.wait(601)
    assert bodies(pop(killed, killed.connect())) == [b"a"]


def test_pops_that_are_all_open_are_not_written_again_for_ever(broker: WholeBroker) -> None:
    log = broker.parts.pops.revive_log
    broker.parts.topics.put(TopicConfig("orders", 1, 1))
    for start in range(6_000):
        record = CheckPointRecord(
            topic="orders",
            group="group",
            queue_id=0,
            start_offset=start,
            popped_at_ms=broker.clock(),
            invisible_ms=259_200_000,
            count=1,
            broker_name="broker-a",
        )
        log.append([record], 0, lambda _: None)
    broker.turn()
    written = dict(log._last)
    assert written[0] == 5_999
    broker.wait(3)
    assert log._last == written


def test_a_store_that_takes_nothing_pops_nothing_and_goes_on_later(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = filled(broker, "a")
    with monkeypatch.context() as full:
        full.setattr(broker.parts.store._admission, "refusal", "disk full")
        assert broker.ask(client, POP, popping()).code == ResponseCode.SYSTEM_ERROR
    assert bodies(pop(broker, client)) == [b"a"]


def test_messages_that_cannot_be_stored_again_come_when_they_can(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = filled(broker, "a")
    pop(broker, client)
    with monkeypatch.context() as full:
        full.setattr(broker.parts.store._admission, "refusal", "disk full")
        broker.wait(15)
    broker.wait(2)
    assert bodies(pop(broker, client)) == [b"a"]


# -- topics made anew -------------------------------------------------------------------------------------------


def _delete_topic(broker: WholeBroker) -> None:
    header = DeleteTopicRequest(topic="orders")
    broker.ask_all(broker.connect(), RequestCode.DELETE_TOPIC_IN_BROKER, header)


def test_what_was_popped_of_a_deleted_topic_is_no_pop_of_the_new_one_after_a_kill(
    broker: WholeBroker, tmp_path: Path
) -> None:
    client = filled(broker, "a", "b")
    pop(broker, client)
    broker.wait(1)
    _delete_topic(broker)
    filled(broker, "x", "y", "z")
    for message in pop(broker, client, max_msg_nums=2):
        ack(broker, client, message)
    killed = broker.crash_image(tmp_path / "killed")
    client = killed.connect()
    killed.wait(12)
    assert bodies(pop(killed, client)) == [b"z"]


def test_ordered_pops_of_a_deleted_topic_do_not_close_the_new_one_after_a_kill(
    broker: WholeBroker, tmp_path: Path
) -> None:
    client = filled(broker, "a", "b")
    pop(broker, client, order=True)
    _delete_topic(broker)
    filled(broker, "x", "y")
    killed = broker.crash_image(tmp_path / "killed")
    assert bodies(pop(killed, killed.connect(), order=True)) == [b"x", b"y"]


def test_a_pop_on_its_way_to_the_disk_does_not_move_a_topic_that_is_made_anew(
    broker: WholeBroker, tmp_path: Path
) -> None:
    client = filled(broker, "a", "b", "c")
    work: list[Callable[[], None]] = []
    with pytest.MonkeyPatch.context() as slow:
        slow.setattr(broker, "in_log_thread", lambda job, done: work.append(lambda: done(job())))
        client.send(_popping_command())
        broker.turn()
        _delete_topic(broker)
        while work:
            work.pop(0)()
            broker.turn()
    filled(broker, "x", "y", "z", "!")
    killed = broker.crash_image(tmp_path / "killed")
    for one in (killed, broker):
        client = one.connect()
        for message in pop(one, client):
            ack(one, client, message)
            assert message.record.body in (b"x", b"y", b"z", b"!")
        assert one.parts.offsets.query("group", "orders", 0) == 4
        one.wait(12)
        assert pop(one, client) == []
