from __future__ import annotations

import io
import json
from typing import Any

from gateway.spark.pipelines.progress import StreamProgress, backlog


def offsets(*, first: int, second: int) -> str:
    return json.dumps({"q": {"orders": {"broker-a": {"0": first, "1": second}}}, "v": 1})


def report(number: int, rows: int, done: tuple[int, int], latest: tuple[int, int]) -> dict[str, Any]:
    ends = {"endOffset": offsets(first=done[0], second=done[1])}
    return {
        "batchId": number,
        "numInputRows": rows,
        "sources": [{**ends, "latestOffset": offsets(first=latest[0], second=latest[1])}],
    }


class Query:
    """Ends after it was looked at so often."""

    def __init__(self, reports: list[dict[str, Any]], looks: int) -> None:
        self.recentProgress = reports
        self.looks = looks

    def awaitTermination(self, _timeout: float) -> bool:  # noqa: N802 - Spark's name
        self.looks -= 1
        return self.looks < 0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_left_is_the_way_from_the_batch_to_the_ends_of_the_queues() -> None:
    assert backlog(report(0, 10, (4, 6), (10, 10))["sources"][0]) == 10
    assert backlog(report(0, 10, (4, 6), (3, 6))["sources"][0]) == 0
    assert backlog({"endOffset": None, "latestOffset": None}) is None
    new_queue = {"endOffset": '{"q":{}}', "latestOffset": offsets(first=2, second=3)}
    assert backlog(new_queue) == 5


def test_a_terminal_has_a_bar_that_is_gone_at_the_end() -> None:
    out = Terminal()
    progress = StreamProgress(out, iter(range(100)).__next__)
    progress.follow(Query([report(0, 30, (10, 20), (20, 40)), report(1, 15, (15, 30), (20, 40))], 2))
    assert "75%  45 rows in 2 batches" in out.getvalue()
    assert out.getvalue().endswith("\r\033[K")
    assert progress.rows == 45


def test_a_batch_that_is_reported_again_counts_once() -> None:
    progress = StreamProgress(io.StringIO(), lambda: 0.0)
    first = report(0, 30, (30, 0), (30, 0))
    progress.take([first])
    progress.take([first, {**first, "numInputRows": 0}])
    assert progress.rows == 30


def test_a_file_gets_a_line_now_and_then() -> None:
    out = io.StringIO()
    times = iter([0.0, 10.0, 31.0, 31.0, 31.5, 40.0, 40.0])
    StreamProgress(out, times.__next__).follow(Query([report(0, 31, (1, 1), (1, 1))], 3))
    assert len(out.getvalue().splitlines()) == 1
