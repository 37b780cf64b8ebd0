"""What a slave takes of a master whose answers no broker could give: nothing that stays, and the truth afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gateway.replication.slave.beginning import CannotFollow, MasterAddresses, span_of_master
from gateway.replication.slave.pages import MAX_TABLE_BYTES
from gateway.schedule.delay_service import MAX_LEVELS
from gateway.settings import Address
from gateway.tests.replication.slave.test_rounds import MASTER, Pair, changed
from wire.bodies.tools.statistics import ConsumerOffsetTable, KVTable
from wire.bodies.topics import DataVersion, TopicConfig, TopicConfigTable
from wire.codes import RequestCode as Code
from wire.command import RemotingCommand
from wire.disk.config_json import DelayOffsetsFile
from wire.headers.declare import Header


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Return a master and a slave, which are stopped in the end."""
    made = Pair(tmp_path)
    yield made
    made.slave.stop()
    made.master.stop()


def lies(pair: Pair, lie: int, body: bytes, fields: Mapping[str, str] | None = None) -> None:
    """Let the master answer one request with this body."""

    def answer(code: int, honest: RemotingCommand) -> RemotingCommand:
        if code != lie:
            return honest
        if fields is not None:
            honest.ext_fields.update(fields)
        return changed(honest, body=body)

    pair.answer = answer


def is_honest(pair: Pair) -> None:
    pair.answer = lambda _, answer: answer


def figures(begin: int, end: int, visible: int) -> bytes:
    """Return the figures of a master."""
    names = ("commitLogMinOffset", "commitLogMaxOffset", "commitLogVisibleOffset")
    return KVTable(dict(zip(names, map(str, (begin, end, visible)), strict=True))).build()


ODD_FIGURES = [  # begin, end, shown end
    (10**30,) * 3,
    (0, 10**30, 0),
    (0, 0, 1 << 63),
    (-99, 0, 0),
    (0, -(10**30), 0),
]


@pytest.mark.parametrize("odd", ODD_FIGURES)
def test_figures_that_no_log_has_are_none_and_the_next_ones_count(pair: Pair, odd: tuple[int, int, int]) -> None:
    pair.fill()
    lies(pair, Code.GET_BROKER_RUNTIME_INFO, figures(*odd))
    pair.round()
    assert not pair.rounds.is_complete
    assert pair.rounds.log_end == -1
    is_honest(pair)
    pair.round()
    assert pair.rounds.is_complete
    pair.assert_equal()


@pytest.mark.parametrize("end", [2**63 - 1, 10**6])
def test_offsets_do_not_wait_for_an_end_that_the_master_takes_back(pair: Pair, end: int) -> None:
    pair.fill()
    lies(pair, Code.GET_BROKER_RUNTIME_INFO, figures(0, end, 0))
    pair.round()
    assert not pair.rounds.is_complete
    is_honest(pair)
    pair.round()
    assert pair.rounds.is_complete
    pair.assert_equal()


@pytest.mark.parametrize("odd", ODD_FIGURES)
def test_a_log_is_not_compared_with_figures_that_no_log_has(odd: tuple[int, int, int]) -> None:
    async def call(_address: Address, _code: int, _header: Header | None) -> RemotingCommand:
        return RemotingCommand(0, body=figures(*odd))

    with pytest.raises(CannotFollow, match="no offset"):
        span_of_master(MasterAddresses(MASTER, MASTER), call).send(None)


def test_delay_levels_that_no_broker_has_are_left_out(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    made_up = {**{-number: 9 for number in range(1000)}, **dict.fromkeys(range(50_000), 9), 3: -5, 4: 7}
    lies(pair, Code.GET_ALL_DELAY_OFFSET, DelayOffsetsFile(made_up).build())
    pair.round()
    kept = pair.slave.parts.delays.offsets()
    assert (kept[1], kept[4], kept.get(3)) == (9, 7, None)
    assert set(kept) == set(range(1, MAX_LEVELS + 1)) - {3}
    assert [record.message for record in caplog.records].count("delay levels of the master left out") == 1


def topics(begin: int, count: int) -> bytes:
    """Return a page of a table of topics."""
    names = [f"t{number}" for number in range(begin, begin + count)]
    return TopicConfigTable({name: TopicConfig(name) for name in names}, DataVersion(9, 9)).build()


def test_a_table_with_more_names_than_a_slave_takes_is_refused_at_its_first_page(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    lies(pair, Code.GET_ALL_TOPIC_CONFIG, topics(0, 3), {"totalTopicNum": "1000000000"})
    pair.round()
    assert pair.asked.count(Code.GET_ALL_TOPIC_CONFIG) == 1
    assert "names" in str([record.__dict__ for record in caplog.records])
    assert not pair.rounds.is_complete
    is_honest(pair)
    pair.round()
    pair.assert_equal()


@pytest.mark.parametrize("limit", ["MAX_FOLLOWED", "MAX_TABLE_BYTES"])
def test_pages_that_have_more_names_or_bytes_than_a_slave_takes_are_refused(
    pair: Pair, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_TABLE_BYTES == 128 << 20
    monkeypatch.setattr(f"gateway.replication.slave.pages.{limit}", 1000 if limit == "MAX_FOLLOWED" else 100_000)
    given = [0]

    def growing(code: int, honest: RemotingCommand) -> RemotingCommand:
        if code != Code.GET_ALL_TOPIC_CONFIG:
            return honest
        given[0] += 400
        honest.ext_fields["totalTopicNum"] = "1000" if given[0] < 1000 else "1201"
        return changed(honest, body=topics(given[0], 400))

    pair.answer = growing
    before = dict(pair.slave.parts.topics.table())
    pair.round()
    assert not pair.rounds.is_complete
    assert given[0] <= 1200
    assert dict(pair.slave.parts.topics.table()) == before


def test_offsets_that_no_broker_has_are_left_out_and_counted(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    good = {
        "T@g": {0: 5, 7: 2**63 - 1},
        "T@g@broadcast": {0: 3},
        "%RETRY%g+T@g": {0: 1},
        "%LMQ%$parent$lite@g": {0: 4},
        "%LMQ%q@%LMQ%q": {0: 4},
        f"rmq_sys_REVIVE_LOG_{pair.slave.parts.settings.broker_cluster_name}@CID_RMQ_SYS_REVIVE_GROUP": {0: 9},
    }
    bad = {"nokey": {0: 5}, "@": {0: 5}, "T@": {0: 1}, "@g": {0: 1}, "..@../..": {0: 1}, f"{'x' * 300}@g": {0: 1}}
    told = {**good, **bad, "T@g": {**good["T@g"], -1: 7, 1: -7, 1 << 31: 3}}
    lies(pair, Code.GET_ALL_CONSUMER_OFFSET, ConsumerOffsetTable(told, applied_end=-(2**63)).build())
    pair.round()
    assert dict(pair.slave.parts.offsets.all()) == good
    assert pair.slave.parts.offsets.applied_end == -1
    lines = [vars(record)["facts"] for record in caplog.records if "offsets of the master left out" in record.message]
    assert [line["left_out"] for line in lines] == [len(bad) + 3]
    assert not [record for record in caplog.records if record.exc_info]
