"""Half and op messages that lie damaged on the disk: no transaction gets another outcome for it, and none is lost.

On a whole broker's directory that was closed properly: with bytes of its files changed before the next start.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from gateway.metadata.names import HALF_TOPIC, OP_HALF_TOPIC
from gateway.store_tool.repair.stand_in import build_stand_in
from gateway.tests.broker.whole_broker import WholeBroker, sending
from gateway.transaction.restart.rebuild import OFFSETS_GROUP
from gateway.transaction.states import State
from wire.codes import RequestCode
from wire.disk.consume_queue import FILLER, UNIT, UNIT_BYTES
from wire.headers.transaction import EndTransactionRequest
from wire.message.flags import SysFlag
from wire.message.message_id import parse_offset_message_id
from wire.message.record import parse_record

COMMIT, ROLLBACK = SysFlag.TRANSACTION_COMMIT, SysFlag.TRANSACTION_ROLLBACK
FIRST_FILE = "00000000000000000000"
HALVES = 6


def half(broker: WholeBroker, key: str) -> EndTransactionRequest:
    """Send a half message; the commit that its producer would send."""
    properties = {"TRAN_MSG": "true", "PGROUP": "producers", "UNIQ_KEY": key}
    sent = broker.ask(
        broker.connect(), RequestCode.SEND_MESSAGE, sending(properties=properties), key.encode()
    ).ext_fields
    return end(int(sent["queueOffset"]), parse_offset_message_id(sent["msgId"])[1], key)


def end(offset: int, place: int, key: str, outcome: int = COMMIT) -> EndTransactionRequest:
    return EndTransactionRequest(
        producer_group="producers",
        tran_state_table_offset=offset,
        commit_log_offset=place,
        commit_or_rollback=outcome,
        from_transaction_check=False,
        msg_id=key,
        transaction_id=key,
    )


class Closed:
    """A directory with six half messages: 0 and 3 pending, 1 and 4 committed, 2 and 5 rolled back; each alone."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        broker = WholeBroker(directory)
        self.ends = [half(broker, f"k{number}") for number in range(HALVES)]
        for number, outcome in ((1, COMMIT), (2, ROLLBACK), (4, COMMIT), (5, ROLLBACK)):
            request = end(number, self.ends[number].commit_log_offset, f"k{number}", outcome)
            broker.ask_all(broker.connect(), RequestCode.END_TRANSACTION, request, oneway=True)
        broker.stop()

    def queue(self, topic: str) -> Path:
        return self.directory / "consumequeue" / topic / "0" / FIRST_FILE

    def unit(self, topic: str, number: int) -> tuple[int, int, int]:
        return UNIT.unpack_from(self.queue(topic).read_bytes(), UNIT_BYTES * number)

    def change(self, path: Path, position: int, data: bytes) -> None:
        whole = bytearray(path.read_bytes())
        whole[position : position + len(data)] = data
        path.write_bytes(whole)

    def xor(self, path: Path, position: int, value: int) -> None:
        self.change(path, position, bytes([path.read_bytes()[position] ^ value]))

    def change_record(self, topic: str, number: int, at: int, data: bytes) -> None:
        self.change(self.directory / "commitlog" / FIRST_FILE, self.unit(topic, number)[0] + at, data)

    def open(self) -> WholeBroker:
        return WholeBroker(self.directory)

    def progress(self) -> tuple[int, int]:
        broker = self.open()
        found = broker.parts.offsets
        progress = found.query(OFFSETS_GROUP, HALF_TOPIC, 0), found.query(OFFSETS_GROUP, OP_HALF_TOPIC, 0)
        broker.stop()
        return progress


@pytest.fixture
def closed(tmp_path: Path) -> Closed:
    return Closed(tmp_path / "store")


def bodies(broker: WholeBroker) -> list[bytes]:
    return [message.body for message in broker.messages("orders")]


def ask(broker: WholeBroker, request: EndTransactionRequest) -> None:
    broker.ask_all(broker.connect(), RequestCode.END_TRANSACTION, request, oneway=True)


def assert_nothing_changed(broker: WholeBroker, closed: Closed) -> None:
    """Every outcome is what it was, and nothing is delivered twice or refused."""
    assert list(broker.parts.transactions.pending) == [0, 3]
    states = [broker.parts.transactions.tables.outcomes.state(number) for number in (1, 2, 4, 5)]
    assert states == [State.COMMITTED, State.ROLLED_BACK, State.COMMITTED, State.ROLLED_BACK]
    for request in closed.ends:
        ask(broker, request)
    assert bodies(broker) == [b"k1", b"k4", b"k0", b"k3"]


DAMAGE = [(7, 4), (5, 1), (0, 0x80), (11, 8), (8, 0x80), (9, 1)]
"""Byte of a unit, and the bits that flip: of the place, and of the size."""


@pytest.mark.parametrize(("byte", "value"), DAMAGE)
@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_damaged_unit_of_the_op_queue_flips_no_outcome(closed: Closed, number: int, byte: int, value: int) -> None:
    path = closed.queue(OP_HALF_TOPIC)
    intact = path.read_bytes()
    closed.xor(path, UNIT_BYTES * number + byte, value)
    broker = closed.open()
    assert path.read_bytes() == intact
    assert_nothing_changed(broker, closed)


@pytest.mark.parametrize(("byte", "value"), DAMAGE)
@pytest.mark.parametrize("number", range(HALVES))
def test_a_damaged_unit_of_the_half_queue_loses_no_half_message(
    closed: Closed, number: int, byte: int, value: int
) -> None:
    path = closed.queue(HALF_TOPIC)
    intact = path.read_bytes()
    closed.xor(path, UNIT_BYTES * number + byte, value)
    broker = closed.open()
    assert path.read_bytes() == intact
    assert_nothing_changed(broker, closed)


@pytest.mark.parametrize("topic", [HALF_TOPIC, OP_HALF_TOPIC])
def test_units_of_zeros_and_exchanged_ones_are_made_again(closed: Closed, topic: str) -> None:
    path = closed.queue(topic)
    intact = path.read_bytes()
    closed.change(path, UNIT_BYTES, intact[2 * UNIT_BYTES : 3 * UNIT_BYTES] + intact[UNIT_BYTES : 2 * UNIT_BYTES])
    closed.open().stop()
    assert path.read_bytes() == intact
    closed.change(path, UNIT_BYTES, bytes(2 * UNIT_BYTES))
    assert_nothing_changed(closed.open(), closed)
    assert path.read_bytes()[: 3 * UNIT_BYTES] == intact[: 3 * UNIT_BYTES]


@pytest.mark.parametrize(("topic", "number"), [(OP_HALF_TOPIC, 1), (HALF_TOPIC, 0), (HALF_TOPIC, 3)])
@pytest.mark.parametrize("damage", ["zeros", "magic", "body"])
def test_a_damaged_record_refuses_the_start_and_moves_no_progress(
    closed: Closed, topic: str, number: int, damage: str
) -> None:
    before = closed.progress()
    place, size, _ = closed.unit(topic, number)
    log = closed.directory / "commitlog" / FIRST_FILE
    intact = log.read_bytes()[place : place + size]
    at, data = {"zeros": (0, bytes(size)), "magic": (4, b"oops"), "body": (88, b"?")}[damage]
    closed.change_record(topic, number, at, data)
    for _ in range(2):
        with pytest.raises(GatewayError) as told:
            closed.open()
        assert "store repair" in str(told.value)
        assert str(log) in str(told.value)
        assert topic in str(told.value)
        assert f"unit {number} " in str(told.value)
    closed.change_record(topic, number, 0, intact)
    assert closed.progress() == before
    assert_nothing_changed(closed.open(), closed)


def stand_in(closed: Closed, topic: str, number: int) -> None:
    """Replace a record by a stand-in, as ``store repair`` does with a damaged record."""
    place, size, _ = closed.unit(topic, number)
    data = (closed.directory / "commitlog" / FIRST_FILE).read_bytes()
    record = build_stand_in((topic, 0, number), place, size, parse_record(data, place).stored_at_ms)
    closed.change_record(topic, number, 0, record)


def test_a_commit_whose_op_record_is_lost_is_known_by_its_final_message(
    closed: Closed, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(4):
        stand_in(closed, OP_HALF_TOPIC, number)
    with caplog.at_level(logging.WARNING, "gateway.transaction"):
        broker = closed.open()
    transactions = broker.parts.transactions
    assert [transactions.tables.outcomes.state(number) for number in (1, 4)] == [State.COMMITTED] * 2
    assert list(transactions.pending) == [0, 2, 3, 5]  # rolled back ones: nothing else told of it
    [told] = [record for record in caplog.records if "op records were lost" in record.getMessage()]
    assert told.facts["half_offsets"] == "[0, 2, 3, 5]"  # type: ignore[attr-defined]
    assert told.facts["lost_op_records"] == 4  # type: ignore[attr-defined]
    assert told.facts["committed_by_final_message"] == 2  # type: ignore[attr-defined]
    for request in closed.ends:
        ask(broker, request)
    assert sorted(bodies(broker)) == [b"k0", b"k1", b"k2", b"k3", b"k4", b"k5"]
    broker = broker.restart()  # the outcomes have op records again
    assert list(broker.parts.transactions.pending) == []
    assert broker.parts.transactions.tables.outcomes.state(1) is State.COMMITTED


def test_messages_that_a_recovery_led_over_do_not_keep_the_server_from_starting(closed: Closed) -> None:
    place = closed.unit(OP_HALF_TOPIC, 0)[0]
    closed.change(closed.queue(OP_HALF_TOPIC), UNIT_BYTES, UNIT.pack(place, UNIT.unpack_from(FILLER)[1], 0))
    broker = closed.open()
    transactions = broker.parts.transactions
    assert transactions.tables.outcomes.state(1) is State.COMMITTED
    assert transactions.tables.outcomes.state(4) is State.COMMITTED


def test_a_half_message_that_a_repair_replaced_is_never_delivered(closed: Closed) -> None:
    for number in (0, 1):
        stand_in(closed, HALF_TOPIC, number)
    broker = closed.open()
    assert list(broker.parts.transactions.pending) == [0, 3]
    assert broker.parts.transactions.tables.outcomes.state(1) is State.COMMITTED
    for request in closed.ends:
        ask(broker, request)
    assert bodies(broker) == [b"k1", b"k4", b"k3"]
