"""Rounds of deletion in a whole broker: in threads, with pauses, and never what is still needed."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.upkeep import expiry
from gateway.broker.upkeep.expiry import ASKED_ROUNDS
from gateway.store.disk.files import DiskSpace
from gateway.store.queues.consume_queue import ConsumeQueue
from gateway.tests.broker.whole_broker import START_MS, WholeBroker, pulling
from wire.codes import RequestCode, ResponseCode
from wire.headers.transaction import EndTransactionRequest
from wire.message.flags import SysFlag
from wire.message.message_id import parse_offset_message_id

FILE_BYTES = 1 << 20
GIB = 1 << 30
NO_HOUR = "24"


def fill(broker: WholeBroker, files: int, *, topic: str = "orders") -> None:
    """Let the log grow by some files."""
    client = broker.connect()
    end = broker.parts.store.max_commit_log_offset + files * FILE_BYTES
    while broker.parts.store.max_commit_log_offset < end:
        assert broker.send(client, topic, body=b"x" * 100_000).code == ResponseCode.SUCCESS


def make_old(directory: Path, hours: int = 1000) -> None:
    for path in (directory / "commitlog").iterdir():
        seconds = START_MS / 1000 - hours * 3600
        os.utime(path, (seconds, seconds))


def broker_in(directory: Path, **changed: Any) -> WholeBroker:
    values: dict[str, Any] = {"delete_when": NO_HOUR, "file_ahead_bytes": 0, **changed}
    return WholeBroker(directory, **values)


def log_files(directory: Path) -> int:
    return len(list((directory / "commitlog").iterdir()))


def ask_for_deletion(broker: WholeBroker) -> None:
    assert broker.ask(broker.connect(), RequestCode.DELETE_EXPIRED_COMMITLOG).code == ResponseCode.SUCCESS


def test_an_operator_can_have_expired_messages_deleted_at_any_hour(tmp_path: Path) -> None:
    broker = broker_in(tmp_path)
    fill(broker, 3)
    make_old(tmp_path)
    broker.wait(21)
    assert log_files(tmp_path) == 4
    ask_for_deletion(broker)
    broker.wait(11)
    assert log_files(tmp_path) == 1
    low = broker.parts.store.min_offset("orders", 0)
    answer = broker.ask(broker.connect(), RequestCode.PULL_MESSAGE, pulling(low - 1))
    assert (answer.code, answer.ext_fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, str(low))


def test_a_wish_is_good_for_some_rounds_and_then_over(tmp_path: Path) -> None:
    broker = broker_in(tmp_path, file_reserved_time_hours=1)
    ask_for_deletion(broker)
    broker.wait(10 * (ASKED_ROUNDS - 1))
    fill(broker, 1)
    make_old(tmp_path)
    broker.wait(11)
    assert log_files(tmp_path) == 1
    fill(broker, 1)
    make_old(tmp_path)
    broker.wait(21)
    assert log_files(tmp_path) == 2


def test_files_go_with_a_pause_between_them_and_a_stop_does_not_wait_for_it(tmp_path: Path) -> None:
    broker = broker_in(tmp_path, delete_commit_log_files_interval_ms=60_000)
    fill(broker, 4)
    make_old(tmp_path)
    ask_for_deletion(broker)
    broker.wait(11)
    assert log_files(tmp_path) == 4
    broker.wait(60)
    assert log_files(tmp_path) == 3
    assert broker.parts.store.min_commit_log_offset == 4 * FILE_BYTES, "out of sight at once"
    broker.stop()
    assert log_files(tmp_path) == 3
    again = broker_in(tmp_path)
    assert again.messages("orders", offset=again.parts.store.min_offset("orders", 0))


def test_the_reactor_looks_at_no_file(tmp_path: Path) -> None:
    broker = broker_in(tmp_path)
    fill(broker, 2)
    make_old(tmp_path)
    ask_for_deletion(broker)
    waiting: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
    broker.in_thread = lambda work, done: waiting.append((work, done))
    rounds = 0
    broker.wait(10)
    while log_files(tmp_path) > 1 and rounds < 100:
        rounds += 1
        work, done = waiting.popleft()
        before = log_files(tmp_path)
        value = work()
        after = log_files(tmp_path)
        done(value)
        assert log_files(tmp_path) == after, "what the reactor does with the outcome changes no file"
        assert before - after in (0, 1)
        broker.wait(0.25)
    assert rounds < 100


def test_the_begin_of_many_queues_is_moved_some_in_a_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "QUEUES_AT_ONCE", 2)
    broker = broker_in(tmp_path)
    client = broker.connect()
    topics = [f"topic-{number}" for number in range(5)]
    for topic in topics:
        assert broker.send(client, topic).code == ResponseCode.SUCCESS
    fill(broker, 2)
    make_old(tmp_path)
    deletion = broker.parts.store.deletion
    moved: list[int] = []
    begin_queues = deletion.begin_queues

    def counting(minima: Sequence[tuple[ConsumeQueue, int]]) -> None:
        moved.append(len(minima))
        begin_queues(minima)

    monkeypatch.setattr(deletion, "begin_queues", counting)
    ask_for_deletion(broker)
    broker.wait(11)
    assert log_files(tmp_path) == 1
    assert moved == [2, 2, 2, 0], "five topics, one more, and what the round itself takes out of sight"
    assert [broker.parts.store.min_offset(topic, 0) for topic in topics] == [1] * 5


def test_a_pending_half_message_outlives_its_time_until_it_is_decided(tmp_path: Path) -> None:
    broker = broker_in(tmp_path, transaction_check_max=1_000_000, transaction_timeout_ms=60_000)
    properties = {"TRAN_MSG": "true", "PGROUP": "producers", "UNIQ_KEY": "k"}
    fields = broker.send(broker.connect(), body=b"pending", properties=properties).ext_fields
    fill(broker, 3)
    make_old(tmp_path)
    ask_for_deletion(broker)
    broker.wait(11)
    assert log_files(tmp_path) == 4
    broker = broker.restart()
    make_old(tmp_path)
    ask_for_deletion(broker)
    broker.wait(11)
    assert log_files(tmp_path) == 4, "also after a restart"
    commit = EndTransactionRequest(
        producer_group="producers",
        tran_state_table_offset=int(fields["queueOffset"]),
        commit_log_offset=parse_offset_message_id(fields["msgId"])[1],
        commit_or_rollback=SysFlag.TRANSACTION_COMMIT,
        from_transaction_check=False,
        msg_id="k",
        transaction_id="k",
    )
    broker.ask_all(broker.connect(), RequestCode.END_TRANSACTION, commit, oneway=True)
    end = broker.parts.store.max_offset("orders", 0)
    assert broker.messages("orders", offset=end - 1)[0].body == b"pending"
    broker.wait(11)
    assert log_files(tmp_path) == 1


def test_sends_are_refused_with_the_numbers_while_space_is_short_and_taken_again_after_it(tmp_path: Path) -> None:
    broker = broker_in(tmp_path, disk_measured_bytes=40 * GIB)
    client = broker.connect()
    deletion = broker.parts.store.deletion
    space = [DiskSpace(100 * GIB, 3 * GIB)]
    deletion.disk_space = lambda: space[0]  # type: ignore[method-assign]
    broker.wait(10)
    answer = broker.send(client)
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert answer.remark == (
        "service not available now: disk full: 3072 MiB of 102400 MiB free, 97 % used; messages are refused below "
        "4096 MiB (diskSpaceWarningLevelRatio 90 %)"
    )
    space[0] = DiskSpace(100 * GIB, 5 * GIB)
    broker.wait(10)
    assert broker.send(client).code == ResponseCode.SUCCESS
