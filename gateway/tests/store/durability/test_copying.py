"""Records of another broker are appended byte for byte, with their queues and keys; what does not fit is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.broker.requests.sending.batches import as_one_record
from gateway.settings.store import StoreSettings
from gateway.store.log.copied_records import CopiedRecords
from gateway.store.log.copied_records import copied_records as careful_records
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutOutcome, PutRow, each_result
from gateway.tests.store.small_store import (
    ASYNC,
    LOG_FILE_BYTES,
    SMALL,
    Disk,
    Executor,
    bodies,
    killed,
    log_file,
    message,
    opened,
    put,
    put_all,
    read_all,
    remove_first,
    small_store,
)
from wire.message.batch import BatchPart, build_batch
from wire.message.flags import SysFlag
from wire.message.record import OutgoingMessage

LIGHT = replace(SMALL, enable_lmq=True, enable_multi_dispatch=True)


def copy(slave: MessageStore, data: bytes | bytearray) -> bool:
    """Append all whole records of some bytes, with executors that run at once."""
    told: list[bool] = []
    slave.append_copied(slave.copied_records(bytes(data)), told.append)
    (answer,) = told
    return answer


def follow(slave: MessageStore, master: MessageStore, limit: int = 1000) -> None:
    """Copy everything that the slave lacks, in parts, as a connection does."""
    held, end = bytearray(), slave.max_commit_log_offset
    while part := master.log_bytes(end + len(held), limit):
        held += part
        records = slave.copied_records(bytes(held))
        assert records.problem is None
        told: list[bool] = []
        slave.append_copied(records, told.append)
        assert told == [True]
        assert slave.max_commit_log_offset == end + len(records.data)
        end += len(records.data)
        del held[: len(records.data)]


def units(store: MessageStore) -> dict[tuple[str, int], bytes]:
    """All units of all queues."""
    return {
        queue: b"".join(
            store.queue_units(*queue, offset, 1) for offset in range(store.min_offset(*queue), store.max_offset(*queue))
        )
        for queue in store.queues()
        if store.max_offset(*queue)
    }


def log_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((directory / "commitlog").iterdir())}


def assert_equal(slave: MessageStore, master: MessageStore, root: Path) -> None:
    end = master.max_commit_log_offset
    assert slave.max_commit_log_offset == slave.durable_end == slave.stored_end == end
    begin = slave.min_commit_log_offset
    ours = b"".join(log_of(root / "slave").values())[: end - begin]
    theirs = b"".join(data for name, data in log_of(root / "master").items() if int(name) >= begin)[: end - begin]
    assert ours == theirs
    assert units(slave) == units(master)
    assert slave.last_stored_ms == master.last_stored_ms


def prepared(offset: int) -> OutgoingMessage:
    return message(b"%d" % offset, sys_flag=SysFlag.TRANSACTION_PREPARED)


def some_messages(master: MessageStore) -> None:
    """Every kind of records, over several files."""
    for number in range(30):
        put(master, message(b"a" * (number * 37 % 900), topic="AB"[number % 2], queue_id=number % 3, TAGS="t"))
        put(master, message(b"k", KEYS=f"key{number} other", UNIQ_KEY=f"U{number}"))
    put(master, message(b"half", topic="RMQ_SYS_TRANS_HALF_TOPIC"))
    put(master, prepared(1))
    put(master, message(b"later", topic="SCHEDULE_TOPIC_XXXX", queue_id=2, DELAY="3"))
    put_all(master, [message(b"x" * 500, topic="C", queue_id=queue) for queue in range(9)])


@pytest.mark.parametrize("settings", [SMALL, ASYNC], ids=["sync", "async"])
@pytest.mark.parametrize("limit", [0, 1000, 100_000])
def test_a_copy_is_equal_in_log_and_queues(tmp_path: Path, settings: StoreSettings, limit: int) -> None:
    def delay_of(level: int) -> int:
        return level * 1000

    master = opened(tmp_path / "master", delay_of=delay_of)
    slave = opened(tmp_path / "slave", settings, delay_of=delay_of)
    some_messages(master)

    follow(slave, master, limit)
    slave.flush_log()

    assert_equal(slave, master, tmp_path)
    assert master.max_commit_log_offset > 2 * LOG_FILE_BYTES
    for number in range(30):
        for key in (f"key{number}", f"U{number}"):
            found = [found.commit_log_offset for found in slave.query_by_key("T", key, 9, 0, 1 << 60)]
            assert found
            assert found == [found.commit_log_offset for found in master.query_by_key("T", key, 9, 0, 1 << 60)]


def test_a_copy_is_equal_after_both_are_opened_again_and_go_on(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "master"), opened(tmp_path / "slave")
    some_messages(master)
    follow(slave, master)
    assert slave.close()

    slave = opened(tmp_path / "slave")
    assert_equal(slave, master, tmp_path)
    some_messages(master)
    follow(slave, master)
    assert_equal(slave, master, tmp_path)
    some_messages(slave)  # a promoted one goes on
    assert len(units(slave)["C", 0]) == 3 * 20


def test_listeners_learn_of_copied_messages(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "master"), opened(tmp_path / "slave")
    seen: list[tuple[str, int, int, bytes]] = []

    def listen(outcomes: Sequence[PutOutcome]) -> None:
        seen.extend((each.topic, each.queue_id, each.queue_offset, each.message.body) for each in each_result(outcomes))

    slave.listen(listen)
    put(master, message(b"one", topic="A", queue_id=3))
    put(master, message(b"two", topic="A", queue_id=3))
    follow(slave, master)

    assert seen == [("A", 3, 0, b"one"), ("A", 3, 1, b"two")]


def test_light_queues_and_inner_batches_are_those_of_the_other_broker(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "master", LIGHT), opened(tmp_path / "slave", LIGHT)
    for number in range(40):
        put(master, message(b"%d" % number, INNER_MULTI_DISPATCH="%LMQ%x,%LMQ%y" if number % 3 else "%LMQ%x"))
        count = 4 - number % 4
        parts = build_batch([BatchPart(0, b"p%d" % part, b"") for part in range(count)])
        put_all(master, [as_one_record(message(parts, topic="B"), count)])

    follow(slave, master)

    assert_equal(slave, master, tmp_path)
    assert len(units(slave)["%LMQ%x", 0]) == 40 * 20


def test_a_filler_alone_waits_for_the_record_behind_it(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "master"), opened(tmp_path / "slave")
    while master.max_commit_log_offset < LOG_FILE_BYTES:
        put(master, b"x" * 1000)
    first = master.log_bytes(0, 1 << 20)
    assert first is not None
    assert len(first) == LOG_FILE_BYTES

    records = slave.copied_records(first)
    assert records.end < LOG_FILE_BYTES
    assert records.needed_bytes > len(first)
    assert copy(slave, first)
    assert slave.max_commit_log_offset == records.end
    assert len(log_of(tmp_path / "slave")) == 1
    follow(slave, master)
    assert_equal(slave, master, tmp_path)


def test_bytes_behind_a_filler_are_taken_as_they_are(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "master"), opened(tmp_path / "slave")
    while master.max_commit_log_offset < LOG_FILE_BYTES:
        put(master, b"x" * 1000)
    file = log_file(tmp_path / "master")
    data = file.read_bytes()
    file.write_bytes(data[:-9] + b"leftovers")

    follow(slave, master)

    assert_equal(slave, master, tmp_path)
    assert log_file(tmp_path / "slave").read_bytes().endswith(b"leftovers")


# --- what does not fit -----------------------------------------------------------------------------------------------


def damaged(change: Callable[[bytearray], object]) -> Callable[[bytes], bytes]:
    def of(record: bytes) -> bytes:
        changed = bytearray(record)
        change(changed)
        return bytes(changed)

    return of


DAMAGE = {
    "body": (damaged(lambda data: data.__setitem__(90, data[90] ^ 1)), "checksum"),
    "place": (damaged(lambda data: data.__setitem__(35, data[35] ^ 1)), "says it lies at"),
    "magic": (damaged(lambda data: data.__setitem__(5, 0)), "unknown magic"),
    "size": (damaged(lambda data: data.__setitem__(slice(0, 4), bytes(4))), "below the least"),
    "beyond the file": (damaged(lambda data: data.__setitem__(slice(0, 4), b"\0\0\x7f\0")), "files of another size"),
    "topic": (lambda record: record.replace(b"\x01T", b"\x01/"), "no queue can be called"),
    "filler": (lambda _: b"\0\0\x01\0\xbb\xcc\xdd\xee\xcb\xd4\x31\x94", "files of another size|unknown magic"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_record_that_is_damaged_or_out_of_place_is_refused_and_nothing_of_it_stays(tmp_path: Path, kind: str) -> None:
    change, problem = DAMAGE[kind]
    master, slave = opened(tmp_path / "master"), opened(tmp_path / "slave")
    second = [put(master, b"body number %d" % number) for number in range(3)][1].commit_log_offset
    whole = master.log_bytes(0, 1 << 20)
    assert whole is not None
    third = 2 * second

    records = slave.copied_records(whole[:second] + change(whole[second:third]) + whole[third:])

    assert records.end == second
    assert records.problem is not None
    assert any(part in records.problem for part in problem.split("|"))
    told: list[bool] = []
    slave.append_copied(records, told.append)
    assert told == [True]
    assert bodies(slave) == [b"body number 0"]
    slave.flush()
    assert not log_file(tmp_path / "slave").read_bytes()[second:].strip(b"\0")
    follow(slave, master)
    assert_equal(slave, master, tmp_path)


def test_a_record_that_is_not_whole_yet_is_no_problem(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "master"), opened(tmp_path / "slave")
    put(master, b"first")
    second = put(master, b"second").commit_log_offset
    whole = master.log_bytes(0, 1 << 20)
    assert whole is not None

    for count in range(len(whole)):
        records = slave.copied_records(whole[:count])
        assert records.problem is None
        assert records.end == (second if count >= second else 0)
        assert records.needed_bytes > count


# --- offsets that the queue does not expect --------------------------------------------------------------------------


def test_queues_begin_where_the_first_copied_record_says(tmp_path: Path) -> None:
    master = opened(tmp_path / "master")
    for number in range(60):
        put(master, message(b"x" * 400, queue_id=number % 2))
    remove_first(master._log.files)
    begin = master.min_commit_log_offset
    slave = opened(tmp_path / "slave")
    done: list[BaseException | None] = []
    slave.begin_log_at(begin, done.append)
    assert done == [None]
    assert (slave.min_commit_log_offset, slave.max_commit_log_offset, slave.durable_end) == (begin, begin, begin)

    follow(slave, master)

    assert slave.min_offset("T", 0) > 0
    for queue_id in range(2):
        first = slave.min_offset("T", queue_id)
        assert [found.queue_offset for found in read_all(slave, queue_id=queue_id)] == list(range(first, 30))
    before = units(slave)
    assert slave.close()
    slave = opened(tmp_path / "slave")
    assert units(slave) == before
    assert units(opened(killed(tmp_path / "slave"))) == before


def test_a_log_that_was_begun_and_got_nothing_opens_again(tmp_path: Path) -> None:
    for clean in (True, False):
        root = tmp_path / str(clean)
        slave = opened(root)
        slave.begin_log_at(3 * LOG_FILE_BYTES, lambda _: None)
        slave.flush()
        if clean:
            assert slave.close()
        again = opened(root if clean else killed(root))
        assert (again.min_commit_log_offset, again.max_commit_log_offset) == (3 * LOG_FILE_BYTES, 3 * LOG_FILE_BYTES)


@pytest.mark.parametrize("fails", ["", "unlink", "create"])
def test_a_log_that_got_nothing_begins_elsewhere_also_after_a_kill_in_between(tmp_path: Path, fails: str) -> None:
    disk, root, done = Disk(), tmp_path / "s", list[BaseException | None]()
    store = opened(root, disk=disk)
    store.begin_log_at(LOG_FILE_BYTES, done.append)
    store.flush()
    if fails:
        disk.fail(fails, f"commitlog/{LOG_FILE_BYTES * (1 if fails == 'unlink' else 3):020}")
    store.begin_log_at(3 * LOG_FILE_BYTES, done.append)
    assert [error is None for error in done] == [True, not fails]
    if fails:
        store = opened(killed(root))
        assert store.min_commit_log_offset == store.max_commit_log_offset
        store.begin_log_at(3 * LOG_FILE_BYTES, done.append)
        assert done[-1] is None
    for again in (store, opened(killed(store._paths.root, 1))):
        assert (again.min_commit_log_offset, again.max_commit_log_offset) == (3 * LOG_FILE_BYTES, 3 * LOG_FILE_BYTES)


@pytest.mark.parametrize("reopen", [False, True])
def test_a_topic_made_again_at_the_other_broker_begins_again(tmp_path: Path, reopen: bool) -> None:
    master, slave = opened(tmp_path / "master"), opened(tmp_path / "slave")
    for number in range(25):
        put(master, message(b"old%d" % number, topic="A"))
    put(master, message(b"other", topic="B"))
    follow(slave, master)
    slave.flush()
    if reopen:
        slave.close()
        slave = opened(tmp_path / "slave")
    master.delete_topic("A")
    for number in range(15):
        put(master, message(b"new%d" % number, topic="A"))

    follow(slave, master, 1 << 20)

    assert_equal(slave, master, tmp_path)
    assert bodies(slave, "A") == [b"new%d" % number for number in range(15)]
    assert bodies(slave, "B") == [b"other"]
    left = opened(killed(tmp_path / "slave"))
    assert units(left) == units(slave)
    slave.close()
    assert units(opened(tmp_path / "slave")) == units(left)


def test_a_queue_whose_files_are_gone_in_part_is_made_from_the_log_again(tmp_path: Path) -> None:
    disk = Disk()
    master, slave = opened(tmp_path / "master"), opened(tmp_path / "slave", disk=disk)
    for number in range(25):
        put(master, message(b"old%d" % number, topic="A"))
    follow(slave, master)
    slave.flush()
    master.delete_topic("A")
    put(master, message(b"new", topic="A"))
    data = master.log_bytes(slave.max_commit_log_offset, 1 << 20)
    assert data is not None
    disk.fail("unlink", f"{200:020d}")  # the second of three files

    assert not copy(slave, data)
    assert bodies(opened(killed(tmp_path / "slave")), "A") == [b"old%d" % number for number in range(25)]

    disk.fault = None
    assert copy(slave, data)
    assert bodies(slave, "A") == [b"new"]
    assert_equal(slave, master, tmp_path)


def test_a_gap_of_the_other_broker_is_a_gap_of_the_copy(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "master"), opened(tmp_path / "slave")
    put(master, b"zero")
    for _ in range(8):
        put(master, message(b"between" * 40, topic="B"))
    master._queues.make("T", 0).next_offset = 4  # as after a recovery that led over damaged records
    master._queues.make("T", 0).max_offset = 4
    put(master, b"four")

    follow(slave, master, 1 << 20)

    assert slave.max_offset("T", 0) == 5
    found = slave.get_messages("T", 0, 4, 1, 1 << 20)
    assert b"".join(found.parts).find(b"four") > 0
    before = units(slave)
    assert units(opened(killed(tmp_path / "slave"))) == before


@pytest.mark.parametrize("offset", [1 << 50, 1, -5])
def test_a_message_whose_offset_cannot_be_is_in_the_log_and_in_no_queue(tmp_path: Path, offset: int) -> None:
    master, slave = opened(tmp_path / "master"), opened(tmp_path / "slave")
    for number in range(3):
        put(master, b"%d" % number)
    place = master.max_commit_log_offset
    queue = master._queues.make("T", 0)
    queue.next_offset = queue.max_offset = offset if offset > 0 else 3
    put(master, b"odd")
    queue.next_offset = queue.max_offset = 3
    put(master, b"three")
    whole = bytearray(log_file(tmp_path / "master").read_bytes()[: master.max_commit_log_offset])
    if offset < 0:
        whole[place + 20 : place + 28] = offset.to_bytes(8, "big", signed=True)

    assert copy(slave, whole)

    assert bodies(slave) == [b"0", b"1", b"2", b"three"]
    assert slave.max_commit_log_offset == len(whole)
    assert bodies(opened(killed(tmp_path / "slave"))) == bodies(slave)


# --- disks that fail -------------------------------------------------------------------------------------------------


def test_a_full_disk_refuses_the_records_and_they_come_again(tmp_path: Path) -> None:
    disk = Disk()
    master, slave = opened(tmp_path / "master"), opened(tmp_path / "slave", disk=disk)
    some_messages(master)
    half = master.log_bytes(0, 4000)
    assert half is not None
    assert copy(slave, half)
    end = slave.max_commit_log_offset
    disk.fail("write", "commitlog", 28)
    whole = master.log_bytes(end, 1 << 20)
    assert whole is not None

    assert not copy(slave, whole)
    assert slave.max_commit_log_offset == slave.stored_end == end
    assert not copy(slave, whole)

    disk.fault = None
    slave.look_at_space(slave.deletion.look())
    follow(slave, master)
    assert_equal(slave, master, tmp_path)


def test_nothing_is_reported_before_it_is_on_disk(tmp_path: Path) -> None:
    executor = Executor()
    master = opened(tmp_path / "master")
    slave = small_store(tmp_path / "slave", soon=executor.soon, in_thread=executor.in_thread)
    slave.open()
    executor.run()
    put(master, b"one")
    data = master.log_bytes(0, 1 << 20)
    assert data is not None
    told: list[bool] = []

    slave.append_copied(slave.copied_records(bytes(data)), told.append)
    executor.run_turn()
    assert (told, slave.durable_end) == ([], 0)
    executor.run()

    assert told == [True]
    assert slave.durable_end == len(data)


# --- in bulk, and more while earlier records are on their way --------------------------------------------------------


def with_care(slave: MessageStore, data: bytes) -> CopiedRecords:
    """The records of some bytes, each read on its own."""
    return careful_records(data, slave.max_commit_log_offset, LOG_FILE_BYTES)


def index_of(directory: Path) -> list[bytes]:
    """All index files."""
    return [path.read_bytes() for path in sorted((directory / "index").iterdir())]


def in_parts(master: MessageStore, sizes: Sequence[int]) -> Iterator[bytes]:
    """All of a log as it may arrive, cut at the ends of records."""
    at, number = 0, 0
    while part := master.log_bytes(at, sizes[number % len(sizes)]):
        at, number = at + len(part), number + 1
        yield part


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["A", "B", "SCHEDULE_TOPIC_XXXX", "%RETRY%g"]),
            st.integers(0, 2),
            st.binary(max_size=300),
            st.sampled_from(["", "tag", "other"]),
            st.sampled_from(["", "k1", "k1 k2"]),
            st.sampled_from([0, 0, 0, SysFlag.TRANSACTION_PREPARED, SysFlag.TRANSACTION_ROLLBACK]),
        ),
        min_size=1,
        max_size=60,
    ),
    st.lists(st.integers(1, 8000), min_size=1, max_size=4),
)
@settings(max_examples=30)
def test_a_walk_in_bulk_and_one_with_care_leave_the_same(
    kinds: list[tuple[str, int, bytes, str, str, int]], sizes: list[int]
) -> None:
    with TemporaryDirectory() as name:
        root = Path(name)
        master = opened(root / "master", delay_of=lambda level: level * 1000)
        quick = opened(root / "quick", delay_of=lambda level: level * 1000)
        careful = opened(root / "careful", delay_of=lambda level: level * 1000)
        told: dict[str, list[tuple[object, ...]]] = {"quick": [], "careful": []}
        for of, store in (("quick", quick), ("careful", careful)):
            store.listen(partial(note_each, told[of]))
        for topic, queue_id, body, tag, keys, flag in kinds:
            properties = {"TAGS": tag, "KEYS": keys, "UNIQ_KEY": f"U{len(body)}", "DELAY": "3"}
            put(master, message(body, topic=topic, queue_id=queue_id, sys_flag=flag, **properties))
        for part in in_parts(master, sizes):
            for store, records in ((quick, quick.copied_records(part)), (careful, with_care(careful, part))):
                if records.data:
                    answers: list[bool] = []
                    store.append_copied(records, answers.append)
                    assert answers == [True]

        assert units(quick) == units(careful) == units(master)
        assert sorted(told["quick"]) == sorted(told["careful"])
        assert [store.last_stored_ms for store in (quick, careful)] == [master.last_stored_ms] * 2
        for store in (quick, careful):
            store.close()
        assert index_of(root / "quick") == index_of(root / "careful")


def note_each(seen: list[tuple[object, ...]], outcomes: Sequence[PutOutcome]) -> None:
    """Keep all that listeners may use of each message."""
    for each in each_result(outcomes):
        found = each.message
        place = (each.commit_log_offset, each.size, each.topic, each.queue_id, each.queue_offset)
        seen.append((*place, each.tags_code, each.stored_at_ms, found.body, sorted(found.property_map.items())))


def test_plain_records_are_taken_in_bulk(tmp_path: Path) -> None:
    master, slave = opened(tmp_path / "master"), opened(tmp_path / "slave")
    for number in range(20):
        put(master, message(b"%d" % number, queue_id=number % 3, TAGS="t"))
    outcomes: list[PutOutcome] = []
    slave.listen(outcomes.extend)
    data = master.log_bytes(0, 1 << 20)
    assert data is not None

    assert copy(slave, data)

    assert [(type(each), each.queue_id, each.count) for each in outcomes] == [
        (PutRow, 0, 7),
        (PutRow, 1, 7),
        (PutRow, 2, 6),
    ]
    for each in outcomes:
        assert each.places() == [found.commit_log_offset for found in read_all(master, queue_id=each.queue_id)]
    assert sum(each.size for each in outcomes) == len(data)


def in_flight(root: Path, settings: StoreSettings = SMALL) -> tuple[MessageStore, Executor]:
    """A store whose blocking work waits for the test."""
    executor = Executor()
    slave = small_store(root, settings, soon=executor.soon, in_thread=executor.in_thread)
    slave.open()
    executor.run()
    return slave, executor


def test_more_records_are_appended_while_earlier_ones_are_on_their_way(tmp_path: Path) -> None:
    master = opened(tmp_path / "master")
    slave, executor = in_flight(tmp_path / "slave")
    for number in range(12):
        put(master, message(b"%d" % number, queue_id=number % 2))
    told: list[bool] = []
    for part in in_parts(master, [400]):
        slave.append_copied(slave.copied_records(part), told.append)
        executor.run_turn()

    assert slave.max_commit_log_offset == master.max_commit_log_offset
    assert (told, slave.durable_end, units(slave)) == ([], 0, {})
    executor.run()
    assert told
    assert all(told)
    assert_equal(slave, master, tmp_path)


def log_of_sent(store: MessageStore, *sent: bytes) -> bytes:
    """Store messages of topic A, and return the bytes of the log that they take."""
    begin = store.max_commit_log_offset
    for body in sent:
        put(store, message(body, topic="A"))
    added = store.log_bytes(begin, 1 << 20)
    assert added is not None
    return added


def test_a_queue_begins_again_only_after_what_is_on_its_way(tmp_path: Path) -> None:
    master = opened(tmp_path / "master")
    slave, executor = in_flight(tmp_path / "slave")
    old = log_of_sent(master, *(b"old%d" % number for number in range(12)))
    master.delete_topic("A")
    new = log_of_sent(master, *(b"new%d" % number for number in range(3)))
    told: list[bool] = []

    slave.append_copied(slave.copied_records(old), told.append)
    executor.run_turn()
    slave.append_copied(slave.copied_records(new), told.append)
    assert slave.max_commit_log_offset == len(old)
    executor.run()

    assert told == [True, True]
    assert bodies(slave, "A") == [b"new0", b"new1", b"new2"]
    assert_equal(slave, master, tmp_path)


@pytest.mark.parametrize("later", [False, True], ids=["while they wait", "while their queue begins again"])
def test_records_that_are_given_up_are_refused_and_may_come_again(tmp_path: Path, later: bool) -> None:
    master = opened(tmp_path / "master")
    slave, executor = in_flight(tmp_path / "slave")
    old = log_of_sent(master, b"old")
    master.delete_topic("A")
    new = log_of_sent(master, b"new")
    told: list[bool] = []

    slave.append_copied(slave.copied_records(old), told.append)
    executor.run_turn()
    slave.append_copied(slave.copied_records(new), told.append)
    while later and not told:
        executor.run_turn()
        if not told:
            executor.work()()
    slave.give_up_copied()
    assert told == ([True] if later else [False])
    executor.run()
    assert sorted(told) == [False, True]
    assert slave.max_commit_log_offset == len(old)

    slave.append_copied(slave.copied_records(new), told.append)
    executor.run()
    assert told[2:] == [True]
    assert bodies(slave, "A") == [b"new"]
    assert_equal(slave, master, tmp_path)


@pytest.mark.parametrize("care", [False, True], ids=["in bulk", "with care"])
def test_records_wait_for_a_batch_that_is_full(tmp_path: Path, care: bool) -> None:
    master = opened(tmp_path / "master")
    slave, executor = in_flight(tmp_path / "slave", replace(SMALL, max_unwritten_bytes=500))
    for number in range(12):
        put(master, b"%d" % number * 300)
    told: list[bool] = []
    for part in in_parts(master, [1000]):
        records = with_care(slave, part) if care else slave.copied_records(part)
        if records.start != slave.max_commit_log_offset or not records.data:
            break
        slave.append_copied(records, told.append)
    waiting = slave.max_commit_log_offset
    assert 0 < waiting < master.max_commit_log_offset
    assert told == []

    executor.run()
    assert told
    assert all(told)
    assert slave.max_commit_log_offset > waiting


def test_records_behind_a_batch_that_failed_are_refused_as_well(tmp_path: Path) -> None:
    disk, executor = Disk(), Executor()
    master = opened(tmp_path / "master")
    slave = small_store(tmp_path / "slave", disk=disk, soon=executor.soon, in_thread=executor.in_thread)
    slave.open()
    executor.run()
    for number in range(12):
        put(master, message(b"%d" % number * 50, queue_id=number % 2))
    parts = list(in_parts(master, [500]))
    told: list[bool] = []
    disk.fail("write", "commitlog", 28)
    for part in parts[:3]:
        slave.append_copied(slave.copied_records(part), told.append)
    executor.run()

    assert told == [False] * 3
    assert slave.max_commit_log_offset == slave.stored_end == 0
    disk.fault = None
    slave.look_at_space(slave.deletion.look())
    for part in parts:
        slave.append_copied(slave.copied_records(part), told.append)
    executor.run()
    assert told[3:] == [True] * len(parts)
    assert_equal(slave, master, tmp_path)
