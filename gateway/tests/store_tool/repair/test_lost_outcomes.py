"""A repair whose op records could not be saved says which transactions may be pending again."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.metadata.names import HALF_TOPIC, OP_HALF_TOPIC
from gateway.store.put_result import PutResult
from gateway.store_tool.repair.lost_outcomes import lost_outcomes
from gateway.tests.store.small_store import HOST, opened, overwrite, put
from gateway.tests.store_tool.small_directory import log_file, run
from gateway.transaction.records.half_messages import final_of, half_of
from gateway.transaction.records.op_messages import build_op
from gateway.transaction.states import State
from wire.disk.config_json import ConsumerOffsetsFile
from wire.message.flags import SysFlag
from wire.message.properties import build_properties
from wire.message.record import OutgoingMessage

PREPARED = SysFlag.TRANSACTION_PREPARED


def half(key: str) -> OutgoingMessage:
    pairs = {"TRAN_MSG": "true", "PGROUP": "g", "UNIQ_KEY": key}
    return half_of(
        OutgoingMessage("orders", 0, 0, PREPARED, 1, HOST, HOST, 0, 0, b"body", build_properties(pairs), pairs)
    )


@pytest.fixture
def settled(tmp_path: Path) -> list[PutResult]:
    """Half 0 was committed, 1 rolled back, 2 is pending; 3 came after both op records. Those, closed properly."""
    store = opened(tmp_path)
    halves = [put(store, half(f"id{number}")) for number in range(3)]
    committed = store.message_at(halves[0].commit_log_offset)
    assert committed is not None
    final = final_of(committed)
    assert final is not None
    put(store, final)
    ops = [
        put(store, build_op([(number, state)], host=HOST, now_ms=1))
        for number, state in ((0, State.COMMITTED), (1, State.ROLLED_BACK))
    ]
    put(store, half("id3"))
    (tmp_path / "config").mkdir()
    offsets = ConsumerOffsetsFile(
        {f"{HALF_TOPIC}@CID_RMQ_SYS_TRANS": {0: 0}, f"{OP_HALF_TOPIC}@CID_RMQ_SYS_TRANS": {0: 0}}
    )
    (tmp_path / "config" / "consumerOffset.json").write_bytes(offsets.build())
    store.close()
    return ops


def test_commits_are_known_by_their_final_messages_and_the_others_are_named(
    tmp_path: Path, settled: list[PutResult]
) -> None:
    for op in settled:
        overwrite(log_file(tmp_path), op.commit_log_offset, bytes(op.size))
    done = run("repair", tmp_path, "--apply")
    assert done.exit_code == 0, done.output
    (kept,) = (tmp_path / "recovered").iterdir()
    report = (kept / "report").read_text()
    for text in (done.stdout, report):
        assert "2 records of outcomes of transactions are lost; 1 commits among them are known" in text
        assert "half message 1, id id1, topic orders, group g" in text
        assert "half message 2, id id2, topic orders, group g" in text
        assert text.count("may be pending again") == 2


def test_nothing_is_said_without_lost_op_records(tmp_path: Path, settled: list[PutResult]) -> None:
    store = opened(tmp_path)
    assert lost_outcomes(store, tmp_path, [("orders", 0, 1)]) == []


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, settled: list[PutResult]) -> None:
    (tmp_path / "config" / "consumerOffset.json").write_bytes(b"{")
    store = opened(tmp_path)
    [line] = lost_outcomes(store, tmp_path, [(OP_HALF_TOPIC, 0, 1)])
    assert "cannot be told" in line
    assert "consumerOffset.json" in line
