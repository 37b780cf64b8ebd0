"""The comparison of two logs by single records, with real stores on both sides."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from twisted.internet.defer import ensureDeferred

from gateway.replication.comparing import compared
from gateway.settings import Address
from gateway.store.message_store import MessageStore
from gateway.tests.replication.around import surroundings
from gateway.tests.store.small_store import LOG_FILE_BYTES, opened, put
from wire.codes import ResponseCode
from wire.command import RemotingCommand
from wire.headers.declare import Header
from wire.headers.pull import ViewMessageRequest
from wire.message.record import build_blank

PEER = Address("10.0.0.2", 10_911)


def compare(ours: MessageStore, peer: MessageStore, place: int, *, filler: bytes | None = None) -> str | None:
    """Compare; ``filler`` is what a peer shows where it has no record, as Apache RocketMQ's broker does."""

    async def call(_address: Address, _code: int, header: Header | None = None) -> RemotingCommand:
        found = peer.record_at(cast(ViewMessageRequest, header).offset) or filler
        return RemotingCommand(ResponseCode.SYSTEM_ERROR if found is None else ResponseCode.SUCCESS, body=found or b"")

    told: list[str | None] = []
    ensureDeferred(compared(ours, surroundings(call=call), PEER, place)).addCallback(told.append)
    (answer,) = told
    return answer


def filled(directory: Path, room: int) -> MessageStore:
    """Return a store whose first file has at most so much room left."""
    store = opened(directory)
    while LOG_FILE_BYTES - store.max_commit_log_offset > room:
        put(store, b"x" * 10)
    return store


def test_a_record_where_our_log_has_a_filler_is_a_difference(tmp_path: Path) -> None:
    """Seed 117142: the promoted slave ended its file with a filler, where the lost master had one more record."""
    ours, theirs = filled(tmp_path / "ours", 400), filled(tmp_path / "theirs", 400)
    end = ours.max_commit_log_offset
    assert end == theirs.max_commit_log_offset
    put(ours, b"long" * 200)
    put(theirs, b"short")
    place = theirs.max_commit_log_offset
    assert end < place < LOG_FILE_BYTES < ours.max_commit_log_offset

    assert compare(ours, theirs, end) is None
    assert f"the records at offset {end} differ" in str(compare(ours, theirs, place))


def test_the_same_filler_is_none_whoever_tells_of_it(tmp_path: Path) -> None:
    ours, theirs = filled(tmp_path / "ours", 400), filled(tmp_path / "theirs", 400)
    end = ours.max_commit_log_offset
    put(ours, b"long" * 200)

    room = LOG_FILE_BYTES - end
    for place in (end + 100, LOG_FILE_BYTES):
        assert compare(ours, theirs, place) is None
        assert compare(ours, theirs, place, filler=build_blank(room).ljust(room, b"\0")) is None


def test_a_slave_that_ended_inside_a_record_must_have_its_begin(tmp_path: Path) -> None:
    ours, theirs, others = (opened(tmp_path / name) for name in ("ours", "theirs", "others"))
    for store in (ours, theirs, others):
        put(store, b"first")
    end = ours.max_commit_log_offset
    put(ours, b"second")
    put(theirs, b"second")
    put(others, b"another")

    assert compare(ours, theirs, end + 30) is None
    assert "differ" in str(compare(ours, others, end + 30))
