"""Rows about the queues of topics, read in threads and written piece by piece, however many queues there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from gateway.broker.cold_reads import ColdReads
from gateway.errors import RequestRefused
from gateway.remoting.long_lists import MAX_LIST_BYTES, member_text, table_text, too_long
from gateway.remoting.turns import Work
from wire.bodies.declare import JsonObject
from wire.bodies.fastjson import PreparedText, object_key
from wire.bodies.message_queue import MessageQueue
from wire.codes import ResponseCode

MAX_ROWS: Final = MAX_LIST_BYTES // 100
"""The number of rows in one answer: each row is longer than 100 bytes, so more of them would not fit."""

ROWS_PER_PIECE: Final = 100
"""The number of rows that a thread reads before others have their turn, in about 10 ms.

A short list waits for one piece of each other list.
"""

Key = TypeVar("Key")
Row = TypeVar("Row")


def check_rows(what: str, count: int) -> None:
    """Refuse a number of rows that cannot fit into a frame.

    :raises RequestRefused: SYSTEM_ERROR: there are more than ``MAX_ROWS`` rows.
    """
    if count > MAX_ROWS:
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR,
            f"{what}: {count} queues do not fit into one frame, the limit is {MAX_ROWS}; ask for fewer topics",
        )


async def read_rows(cold_reads: ColdReads, keys: Sequence[Key], read: Callable[[Key], Row]) -> list[Row]:
    """Read one row for each key in threads, and let other reads pass in between.

    :raises RequestRefused: SYSTEM_BUSY: too many reads wait already.
    """
    rows: list[Row] = []
    for piece in _pieces(keys):
        rows += await cold_reads.tool_result(partial(_read_piece, read, piece))
    return rows


async def rows_text(what: str, cold_reads: ColdReads, keys: Sequence[Key], text_of: Callable[[Key], str]) -> str:
    """Read one row for each key and make its text, both in threads; return all texts, separated by commas.

    Only the texts are kept, because rows of objects take several times as much memory.

    :raises RequestRefused: SYSTEM_BUSY: too many reads wait; SYSTEM_ERROR: the text does not fit into a frame.
    """
    pieces: list[str] = []
    size = 0
    for piece in _pieces(keys):
        text = ",".join(await cold_reads.tool_result(partial(_read_piece, text_of, piece)))
        size += len(text) + 1
        if size > MAX_LIST_BYTES:
            raise too_long(what)
        pieces.append(text)
    return ",".join(pieces)


def _pieces(keys: Sequence[Key]) -> Iterator[Sequence[Key]]:
    return (keys[first : first + ROWS_PER_PIECE] for first in range(0, len(keys), ROWS_PER_PIECE))


def _read_piece(read: Callable[[Key], Row], piece: Sequence[Key]) -> list[Row]:
    return [read(key) for key in piece]


def row_text(queue: MessageQueue, row: JsonObject) -> str:
    """Return the JSON text of one entry of a table: the queue as the key, and its row."""
    return member_text(object_key(queue.to_json()), row.to_json())


def queue_table(what: str, rows: Iterable[tuple[MessageQueue, JsonObject | int]]) -> Work[PreparedText]:
    """Make the JSON text of a table with queues as keys, and rows or numbers as values. Raise as ``list_text`` does."""
    return table_text(what, ((object_key(queue.to_json()), _plain(row)) for queue, row in rows))


def _plain(row: JsonObject | int) -> Any:
    return row.to_json() if isinstance(row, JsonObject) else row
