"""One reading of a queue: what cannot be read is mended once, and then an error; never passed over."""

from __future__ import annotations

import pytest

from gateway.store.reading.get_result import GetResult, GetStatus
from gateway.tests.transaction.memory_log import MemoryLog
from gateway.transaction.records.queue_records import END_OF_LOG, MessageUnreadable, QueueRecords, log_offset


class Reads(MemoryLog):
    """A queue that answers as told, and takes no mending."""

    def __init__(self, *results: GetResult) -> None:
        super().__init__(lambda: 0)
        self.results = list(results)
        self.mended: list[tuple[int, int]] = []

    def get_messages(self, *_: object, **__: object) -> GetResult:
        return self.results.pop(0) if len(self.results) > 1 else self.results[0]

    def mend_queue(self, topic: str, queue_id: int, offset: int, count: int) -> int:
        self.mended.append((offset, count))
        return 0


@pytest.mark.parametrize(
    "result",
    [
        GetResult(GetStatus.OFFSET_FOUND_NULL, 0, (0, 5)),
        GetResult(GetStatus.MESSAGE_WAS_REMOVING, 1, (0, 5)),
        GetResult(GetStatus.MESSAGE_DAMAGED, 0, (0, 5), remark="damaged"),
        GetResult(GetStatus.FOUND, 3, (0, 5), 2, [b"too few"]),
        GetResult(GetStatus.FOUND, 1, (0, 5), 1, [bytes(100)]),
    ],
)
def test_what_cannot_be_read_is_mended_once_and_then_an_error(result: GetResult) -> None:
    store = Reads(result)
    with pytest.raises(MessageUnreadable, match=r"message 0 of T/0 .*store repair"):
        list(QueueRecords(store, "T", 0, 0, 5))
    assert store.mended[:1] in ([], [(0, 5)])


def test_a_place_that_cannot_be_read_lets_a_search_begin_before_it() -> None:
    assert log_offset(Reads(GetResult(GetStatus.MESSAGE_DAMAGED, 0, (0, 5))), "T", 0, 0) == END_OF_LOG
