"""Closed files give the same rows as the broker, or none; never others."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest

from gateway.client.errors import RequestTimeout
from gateway.client.message_queue import MessageQueue
from gateway.spark.asking.cluster import Cluster
from gateway.spark.errors import OptionRefused, SparkSourceError
from gateway.spark.reading import sealed
from gateway.spark.reading.planning import QueueRange
from gateway.spark.reading.range_reader import RangeReader
from gateway.spark.reading.sealed import SealedRange
from gateway.spark.table.schema import wanted_columns
from gateway.tests.spark.pretend_cluster import BROKER, PretendCluster
from gateway.tests.spark.reading.test_planning import options
from gateway.tests.spark.store_files import FILE_BYTES, UNITS_IN_FILE, StoreFiles

LOCAL = pafs.LocalFileSystem()
ORDERS, OTHERS = ("orders", 0), ("RMQ_SYS_TRANS_HALF_TOPIC", 0)
WANTED = wanted_columns([("queueOffset", "bigint"), ("body", "binary"), ("tags", "string")], json_properties=False)


@pytest.fixture
def store(tmp_path: Path) -> StoreFiles:
    """A hundred messages between those of other queues, in several files."""
    files = StoreFiles(tmp_path)
    chance = random.Random(3)
    for number in range(100):
        files.fill([ORDERS], b"%d" % number * chance.randint(1, 30))
        files.fill(chance.choices([OTHERS, ("orders", 1)], k=chance.randint(0, 4)), b"half")
    return files


def broker_of(store: StoreFiles) -> PretendCluster:
    queues = {MessageQueue(topic, BROKER, number): its for (topic, number), its in store.records.items()}
    return PretendCluster(queues)


def read(store: StoreFiles, cluster: PretendCluster, start: int, end: int, **given: Any) -> list[tuple[Any, ...]]:
    pretended: Cluster = cluster  # type: ignore[assignment]
    given = {"storePath": str(store.root), **given}
    work = QueueRange(MessageQueue("orders", BROKER, 0), start, end)
    reader = RangeReader(pretended, options(**given), WANTED, work, wait=lambda _: None, now=lambda: 0.0)
    return [tuple(row.values()) for batch in reader.batches() for row in batch.to_pylist()]


def sealed_offsets(store: StoreFiles) -> list[int]:
    part = SealedRange(str(store.root), QueueRange(MessageQueue("orders", BROKER, 0), 0, 100))
    return [offset for span in part.spans() for offset in range(span.first, span.next_offset)]


@pytest.mark.parametrize(("start", "end"), [(0, 100), (7, 93), (0, 1), (99, 100)])
def test_files_and_the_broker_together_give_the_same_rows_as_the_broker(
    store: StoreFiles, start: int, end: int
) -> None:
    cluster = broker_of(store)
    assert read(store, cluster, start, end) == read(store, broker_of(store), start, end, storePath="")
    assert [row[0] for row in read(store, cluster, start, end)] == list(range(start, end))


def test_most_is_read_from_closed_files_and_the_last_file_from_the_broker(store: StoreFiles) -> None:
    cluster = broker_of(store)
    read(store, cluster, 0, 100)
    closed = sealed_offsets(store)
    assert 50 < len(closed) < 100
    assert closed == list(range(len(closed)))
    assert [asked.queue_offset for asked in cluster.pulls[:2]] == [0, len(closed)]


def test_spans_end_with_their_file_and_have_so_many_records_and_bytes(
    store: StoreFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read(store, broker_of(store), 0, 100)
    monkeypatch.setattr(sealed, "MAPPED_SPAN_BYTES", 700)
    monkeypatch.setattr(sealed, "UNITS_READ", 5)
    assert read(store, broker_of(store), 0, 100) == expected
    part = SealedRange(str(store.root), QueueRange(MessageQueue("orders", BROKER, 0), 0, 100))
    sizes = [len(span.buffer) for span in part.spans(most_records=3)]
    assert max(sizes) < 700 + FILE_BYTES / 4
    assert len(sizes) > UNITS_IN_FILE
    monkeypatch.setattr(sealed, "MAPPED_SPAN_BYTES", FILE_BYTES)
    whole = [span.next_offset - span.first for span in part.spans()]
    monkeypatch.setattr(sealed, "SPAN_BYTES", 300)
    assert read(store, broker_of(store), 0, 100) == expected
    assert len(list(part.spans())) > 2 * len(whole)


@pytest.mark.parametrize("is_local", [True, False])
@pytest.mark.parametrize("least", [1000, 4])
def test_neighbours_are_brought_together_and_give_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int, is_local: bool
) -> None:
    monkeypatch.setattr(sealed, "LEAST_NEIGHBOURS", least)
    if not is_local:
        monkeypatch.setattr(sealed, "_filesystem", lambda store: (pafs.SubTreeFileSystem("/", LOCAL), store))
    files = StoreFiles(tmp_path)
    for number in range(40):
        files.fill([OTHERS], b"half" * 3)
        for place in range(6):
            files.fill([ORDERS], b"%02d/%d" % (number, place))
    part = SealedRange(str(tmp_path), QueueRange(MessageQueue("orders", BROKER, 0), 0, 240))
    spans = [(bytes(span.buffer), span.starts[-1], span.next_offset) for span in part.spans()]
    assert any(b"half" in buffer for buffer, _, _ in spans) == (least > 4)
    mine = files.records[ORDERS]
    assert all(len(buffer) == last + len(mine[end - 1]) for buffer, last, end in spans)
    if least == 4:
        assert b"".join(buffer for buffer, _, _ in spans) == b"".join(mine[: spans[-1][2]])
    assert read(files, broker_of(files), 0, 240) == read(files, broker_of(files), 0, 240, storePath="")


def test_tags_are_looked_at_in_files_too(store: StoreFiles) -> None:
    store.fill([ORDERS], TAGS="late")
    assert read(store, broker_of(store), 0, 50, subExpression="late") == []
    assert len(read(store, broker_of(store), 0, 50, subExpression="late || paid")) == 50


def test_the_store_of_another_broker_is_an_error(store: StoreFiles, tmp_path: Path) -> None:
    other = StoreFiles(tmp_path / "other")
    for _ in range(100):
        other.fill([ORDERS], b"something else")
    with pytest.raises(SparkSourceError, match="the store of another broker, or an old copy"):
        read(other, broker_of(store), 0, 100)


@pytest.mark.parametrize("place", [0, 8, 20, 30])
def test_a_record_that_is_not_what_the_queue_says_is_an_error(store: StoreFiles, place: int) -> None:
    """Its size, checksum, queue offset, place in the log."""
    log = store.root / "commitlog" / f"{FILE_BYTES:020}"
    data = bytearray(log.read_bytes())
    target = next(record for record in store.records[ORDERS] if record in data)
    data[data.index(target) + place + 3] ^= 0x55
    log.write_bytes(data)
    with pytest.raises(SparkSourceError, match=r"storePath have another record|damaged"):
        read(store, broker_of(store), 0, 100)


def test_a_record_of_another_topic_is_an_error(store: StoreFiles) -> None:
    log = store.root / "commitlog" / f"{0:020}"
    target = store.records[ORDERS][0]
    data = log.read_bytes()
    assert data.startswith(target)
    changed = store.records[ORDERS][1].replace(b"\x06orders", b"\x06others")
    log.write_bytes(data.replace(store.records[ORDERS][1], changed))
    with pytest.raises(SparkSourceError, match="some are of another topic"):
        read(store, broker_of(store), 0, 100)


def test_without_files_everything_is_asked_of_the_broker(store: StoreFiles, tmp_path: Path) -> None:
    rows = read(store, broker_of(store), 0, 100)
    (tmp_path / "new" / "commitlog").mkdir(parents=True)
    assert read(StoreFiles(tmp_path / "new"), broker_of(store), 0, 100) == rows
    assert read(store, broker_of(store), 0, 100, storePath='{"broker-b": "/nowhere"}') == rows


@pytest.mark.parametrize(
    ("path", "text"),
    [("{}/nothing", "there is no directory commitlog in it"), ("{}", "every worker"), ("foo://x", "Unrecognized")],
)
def test_a_path_without_a_store_is_an_error(store: StoreFiles, tmp_path: Path, path: str, text: str) -> None:
    given = path.format(tmp_path / "empty")
    (tmp_path / "empty").mkdir()
    with pytest.raises(OptionRefused, match=text) as caught:
        read(store, broker_of(store), 0, 100, storePath=given)
    assert given in str(caught.value)


def test_a_file_that_retention_takes_is_the_brokers_to_tell_of(store: StoreFiles) -> None:
    cluster = broker_of(store)
    (store.root / "commitlog" / f"{FILE_BYTES:020}").unlink()
    assert [row[0] for row in read(store, cluster, 0, 100)] == list(range(100))


def test_messages_of_the_system_that_lie_between_are_never_seen(store: StoreFiles) -> None:
    assert not any(row[1] == b"half" for row in read(store, broker_of(store), 0, 100))


UNREACHABLE = OSError("When getting information for key 'store/commitlog': AWS Error NETWORK_CONNECTION")


def test_point_13_files_that_cannot_be_reached_are_an_error_and_not_read_from_the_broker(
    store: StoreFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nowhere:
        def get_file_info(self, _path: object) -> None:
            raise UNREACHABLE

    monkeypatch.setattr(sealed, "_filesystem", lambda path: (Nowhere(), path))
    cluster = broker_of(store)
    with pytest.raises(SparkSourceError, match=r"storePath cannot be read on .*NETWORK_CONNECTION") as caught:
        read(store, cluster, 0, 100)
    assert caught.value.__cause__ is UNREACHABLE
    assert cluster.pulls == []


@pytest.mark.parametrize("after", range(8))
def test_point_13_files_that_cannot_be_reached_any_more_are_an_error(
    store: StoreFiles, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    opened = sealed.Segments._file
    left = [after]

    def fail(segments: sealed.Segments, position: int) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise UNREACHABLE
        return opened(segments, position)

    monkeypatch.setattr(sealed.Segments, "_file", fail)
    with pytest.raises(SparkSourceError, match=r"storePath cannot be read on .*NETWORK_CONNECTION"):
        read(store, broker_of(store), 0, 100)


def test_a_broker_that_does_not_answer_is_no_matter_of_files(store: StoreFiles) -> None:
    cluster = broker_of(store)
    cluster.faults.extend([RequestTimeout("PULL_MESSAGE", "10.0.0.7:10911", 3)] * 9)
    pretended: Cluster = cluster  # type: ignore[assignment]
    clock = itertools.count(0.0, 10.0)
    work = QueueRange(MessageQueue("orders", BROKER, 0), 0, 100)
    given = options(storePath=str(store.root))
    reader = RangeReader(pretended, given, WANTED, work, wait=lambda _: None, now=clock.__next__)
    with pytest.raises(RequestTimeout):
        list(reader.batches())
