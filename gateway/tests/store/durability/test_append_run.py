"""Batches appended in one step leave what their messages leave one by one, and share their fate."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.settings.store import StoreSettings
from gateway.store.index.index_entries import KeyKind
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutOutcome, PutRun, PutStatus, WaitFor, each_result
from gateway.tests.store.small_store import (
    ASYNC,
    HOST,
    LOG_FILE_BYTES,
    SMALL,
    START_MS,
    Clock,
    Disk,
    Executor,
    bodies,
    content,
    killed,
    message,
    opened,
    put,
    put_all,
    read_all,
)
from wire.disk.consume_queue import UNIT
from wire.message.batch import BatchPart, build_batch
from wire.message.flags import SysFlag
from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage
from wire.message.tags import tags_code
from wire.quick.message_run import MessageRun
from wire.tests.message.strategies import QUICK, hosts, int32s, int64s, property_maps

EVER = 1 << 60
OUTER = {"UNIQ_KEY": "outer", "WAIT": "true", "CLUSTER": "c"}
LIGHT = replace(SMALL, enable_lmq=True, enable_multi_dispatch=True)
EXTENDED = replace(LIGHT, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=200)


def run_of(*parts: tuple[bytes, dict[str, str]], topic: str = "T", sys_flag: int = 0) -> MessageRun:
    body = build_batch([BatchPart(number, each, build_properties(own)) for number, (each, own) in enumerate(parts)])
    return MessageRun(
        OutgoingMessage(topic, 0, 0, sys_flag, START_MS, HOST, HOST, 0, 0, body, build_properties(OUTER), OUTER)
    )


def simple(*texts: bytes) -> MessageRun:
    return run_of(*[(text, {"UNIQ_KEY": text.decode()}) for text in texts])


def put_run(store: MessageStore, run: MessageRun) -> Sequence[PutOutcome]:
    """Append a batch, with executors that run at once."""
    told: list[Sequence[PutOutcome]] = []
    store.append_run(run, told.append)
    (outcomes,) = told
    return outcomes


def stored(directory: Path) -> dict[str, bytes]:
    """The log and what is derived from it."""
    kinds = ("commitlog", "consumequeue", "consumequeue_ext", "index")
    return {name: data for name, data in content(directory).items() if name.split("/")[0] in kinds}


# -- the same bytes ---------------------------------------------------------------------------------------------

_alike = st.builds(
    lambda key, rest: {"UNIQ_KEY": key, **rest},
    st.text("0123456789ABCDEF", min_size=8, max_size=8),
    st.sampled_from([{}, {"WAIT": "true"}, {"TAGS": "a"}, {"KEYS": "k1 k2", "TAGS": "b"}]),
)
_odd = st.dictionaries(
    st.sampled_from(["UNIQ_KEY", "KEYS", "TAGS", "WAIT", "DELAY", "TRAN_MSG", "INNER_NUM"]),
    st.sampled_from(["1", "true", "a b", "é漢", "x\x01y"]),
)
_light = st.sampled_from(["%LMQ%x", "%LMQ%x,%LMQ%y", "no"]).map(lambda names: {"INNER_MULTI_DISPATCH": names})
_part = st.builds(
    BatchPart,
    int32s,
    st.binary(max_size=40) | st.binary(min_size=300, max_size=700),
    (_alike | _alike | _odd | _light | property_maps).map(build_properties),
)
_FLAGS = (
    *(0, SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZSTD, SysFlag.MULTI_TAGS, 0x3000_0000),
    *(SysFlag.TRANSACTION_PREPARED, SysFlag.TRANSACTION_ROLLBACK, SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP),
)
_batch = st.builds(
    OutgoingMessage,
    topic=st.sampled_from(["T", "%DLQ%" + "é" * 50]),
    queue_id=st.integers(0, 1),
    flag=st.just(0),
    sys_flag=st.sampled_from(_FLAGS),
    born_at_ms=int64s,
    born_host=hosts,
    store_host=hosts,
    reconsume_times=int32s,
    prepared_transaction_offset=int64s,
    body=st.lists(_part, min_size=1, max_size=8).map(build_batch),
    properties=st.sampled_from([OUTER, {"TAGS": "o", **OUTER}, {}]).map(build_properties),
)


def put_one_by_one(store: MessageStore, run: MessageRun) -> Sequence[PutOutcome]:
    return put_all(store, run.messages())


def left_by(
    directory: Path,
    settings: StoreSettings,
    batches: Sequence[OutgoingMessage],
    put_batch: Callable[[MessageStore, MessageRun], Sequence[PutOutcome]],
) -> list[object]:
    """Return the notices about the batches, the counts, and every byte on disk."""
    clock = Clock()
    store = opened(directory, settings, clock=clock)
    left: list[object] = []
    for batch in batches:
        outcomes = put_batch(store, MessageRun(batch))
        left += [(each.status, each.commit_log_offset, each.queue_offset, each.size) for each in each_result(outcomes)]
        clock.now_ms += 3
    assert store.flush()
    left += [store.figures.stored_messages.value, store.figures.refused_messages.value, *stored(directory).items()]
    store.close()
    return left


@pytest.mark.parametrize("settings", [SMALL, ASYNC, LIGHT, EXTENDED])
@QUICK
@given(batches=st.lists(_batch, min_size=1, max_size=12))
def test_batches_leave_the_bytes_of_their_messages_one_by_one(
    settings: StoreSettings, batches: list[OutgoingMessage]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        quick = left_by(Path(name, "quick"), settings, batches, put_run)
        assert quick == left_by(Path(name, "slow"), settings, batches, put_one_by_one)


def test_a_batch_goes_to_the_next_file_as_a_whole(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put(store, bytes(LOG_FILE_BYTES - 700))
    outcomes = put_run(store, run_of(*[(b"%d" % number + bytes(300), {}) for number in range(3)]))
    assert [each.commit_log_offset // LOG_FILE_BYTES for each in each_result(outcomes)] == [1, 1, 1]
    assert outcomes[0].commit_log_offset == LOG_FILE_BYTES
    assert [found.body[:1] for found in read_all(store)][1:] == [b"0", b"1", b"2"]


# -- what is told of it -----------------------------------------------------------------------------------------


def test_a_plain_batch_is_one_outcome_and_each_message_can_be_told(tmp_path: Path) -> None:
    store = opened(tmp_path)
    heard: list[PutOutcome] = []
    store.listen(heard.extend)
    put(store, b"before")
    (outcome,) = put_run(store, run_of((b"a", {"TAGS": "red"}), (b"bb", {})))
    assert isinstance(outcome, PutRun)
    assert heard[1:] == [outcome]
    assert (outcome.count, outcome.queue_offset, outcome.status) == (2, 1, PutStatus.PUT_OK)
    a, b = found = list(outcome.each())
    assert (
        [each.commit_log_offset for each in found]
        == outcome.places()
        == [m.commit_log_offset for m in read_all(store)][1:]
    )
    assert (a.queue_offset, b.queue_offset) == (1, 2)
    assert (a.tags_code, b.tags_code) == (tags_code("red"), 0)
    assert (a.size + b.size, a.message.body, b.message.body) == (outcome.size, b"a", b"bb")
    assert a.message.property_map == {"TAGS": "red"}
    queue = store._queues.make("T", 0)
    assert list(UNIT.iter_unpack(queue.read_units(1, 2))) == [
        (each.commit_log_offset, each.size, each.tags_code) for each in found
    ]


def test_messages_of_a_batch_are_found_by_their_keys_and_tags(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put_run(store, run_of((b"a", {"UNIQ_KEY": "A1"}), (b"b", {"UNIQ_KEY": "B2", "KEYS": "k l", "TAGS": "t"})))

    def found(key: str, kind: KeyKind = KeyKind.ANY) -> list[bytes]:
        return [each.body for each in store.query_by_key("T", key, 32, 0, EVER, kind)]

    assert [found("A1"), found("B2"), found("k"), found("l"), found("t", KeyKind.TAG)] == [[b"a"], *[[b"b"]] * 4]
    assert found("outer") == []


def test_messages_of_a_batch_are_recovered_and_indexed_after_a_kill(tmp_path: Path) -> None:
    store = opened(tmp_path / "s")
    put_run(store, simple(b"A", b"B", b"C"))
    again = opened(killed(tmp_path / "s"))
    assert bodies(again) == [b"A", b"B", b"C"]
    assert [each.body for each in again.query_by_key("T", "B", 32, 0, EVER, KeyKind.UNIQUE)] == [b"B"]


def test_messages_that_name_light_queues_are_in_them(tmp_path: Path) -> None:
    store = opened(tmp_path, LIGHT)
    named = {"INNER_MULTI_DISPATCH": "%LMQ%x"}
    outcomes = put_run(store, run_of((b"a", named), (b"b", {}), (b"c", named)))
    assert [outcome.count for outcome in outcomes] == [1, 1, 1]
    assert bodies(store, "%LMQ%x") == [b"a", b"c"]
    assert bodies(store) == [b"a", b"b", b"c"]


def test_prepared_messages_are_in_no_queue(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put_run(store, run_of((b"a", {}), sys_flag=SysFlag.TRANSACTION_PREPARED))
    assert bodies(store) == []
    assert store.max_commit_log_offset > 0


# -- refused ----------------------------------------------------------------------------------------------------


def test_batches_that_fit_nowhere_are_refused_whole(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for run in (run_of((b"a", {}), (bytes(LOG_FILE_BYTES), {})), run_of(*[(bytes(1000), {})] * 9)):
        outcomes = put_run(store, run)
        assert {outcome.status for outcome in outcomes} == {PutStatus.MESSAGE_ILLEGAL}
        assert {outcome.commit_log_offset for outcome in outcomes} == {-1}
    assert store.max_commit_log_offset == 0
    assert put(store, b"next").queue_offset == 0


def test_a_closed_store_refuses_and_counts_every_message(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store._admission.refuse("no space")
    (outcome,) = put_run(store, simple(b"A", b"B"))
    assert outcome.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert store.figures.refused_messages.value == 2


def test_a_full_disk_gives_the_offsets_back(tmp_path: Path) -> None:
    disk = Disk()
    store = opened(tmp_path, disk=disk)
    put_run(store, simple(b"A", b"B"))
    disk.fail("write", "commitlog", errno.ENOSPC)
    (outcome,) = put_run(store, simple(b"C", b"D"))
    assert (outcome.status, outcome.queue_offset, outcome.commit_log_offset) == (
        PutStatus.SERVICE_NOT_AVAILABLE,
        -1,
        -1,
    )
    assert store.figures.refused_messages.value == 2
    disk.fault = None
    store.look_at_space(store.deletion.look())
    put_run(store, simple(b"E"))
    assert bodies(store) == [b"A", b"B", b"E"]
    assert [found.queue_offset for found in read_all(store)] == [0, 1, 2]


def test_what_waits_unwritten_is_bounded(tmp_path: Path) -> None:
    executor = Executor()
    store = opened(tmp_path, replace(SMALL, max_unwritten_bytes=300), soon=executor.soon, in_thread=executor.in_thread)
    told: list[PutStatus] = []
    for text in (b"A", b"B", b"C", b"D"):
        store.append_run(simple(text), lambda outcomes: told.append(outcomes[0].status))
    assert told == [PutStatus.SERVICE_NOT_AVAILABLE]
    executor.run()
    assert sorted(told, key=str) == [*[PutStatus.PUT_OK] * 3, PutStatus.SERVICE_NOT_AVAILABLE]


# -- when it is told --------------------------------------------------------------------------------------------


def test_who_does_not_wait_is_told_when_the_batch_is_written(tmp_path: Path) -> None:
    executor = Executor()
    store = opened(tmp_path, soon=executor.soon, in_thread=executor.in_thread)
    told: list[str] = []
    store.append_run(simple(b"A"), lambda _: told.append("hasty"), WaitFor.WRITE)
    store.append_run(simple(b"B"), lambda _: told.append("patient"))
    executor.run_turn()
    executor.work()()
    assert told == ["hasty"]
    assert bodies(store) == []
    executor.run()
    assert told == ["hasty", "patient"]
    assert bodies(store) == [b"A", b"B"]


def test_a_read_index_goes_on_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    """What was read from the log already is not entered twice."""
    store = opened(tmp_path)
    (outcome,) = put_run(store, simple(b"A1", b"B2", b"C3"))
    index = store._index
    index.scanned = outcome.places()[1]
    assert index.build(512) == 3
    assert sum(file.next_entry - 1 for file in index.index_files) == 2
    assert index.scanned == store.max_commit_log_offset


def test_the_index_may_stop_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    store = opened(tmp_path)
    put(store, message(UNIQ_KEY="Z"))
    put_run(store, simple(b"A1", b"B2", b"C3"))
    put_run(store, simple(b"D4"))
    index = store._index
    assert [index.build(2), index.backlog, index.scanned] == [2, 3, read_all(store)[2].commit_log_offset]
    assert [index.build(2), index.backlog] == [2, 1]
    assert [index.build(2), index.backlog, index.scanned] == [1, 0, store.max_commit_log_offset]
    assert sum(file.next_entry - 1 for file in index.index_files) == 5
    assert [each.body for each in store.query_by_key("T", "D4", 32, 0, EVER, KeyKind.UNIQUE)] == [b"D4"]
