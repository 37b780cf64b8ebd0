"""Arrow columns made of records: one function for each column of the table.

Fixed columns are numpy gathers; texts and bytes are Arrow takes. Python handles single records only in rare cases
(compressed and damaged bodies, odd property strings, IPv6 hosts) and for checksums, which no vectorised code computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, repeat
from struct import Struct
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gateway.client.compression import Hold, decompress
from gateway.client.errors import MessageRefused
from gateway.client.message import host_text
from gateway.spark.errors import BodyUnreadable
from gateway.spark.table.byte_tables import hexadecimal, hexadecimal_words, repeated, texts_column
from gateway.spark.table.property_pairs import Pairs, map_column, pairs_of, words_column
from gateway.spark.table.records import Group, Integers, Records, Whole, by_hosts
from gateway.spark.table.schema import (
    BODY_ERROR,
    FIRST_MS,
    LAST_MS,
    MOMENT,
    PREPARED_OFFSET,
    PROPERTIES_JSON,
    TEXTS,
    WORDS,
    Column,
    WantedColumn,
    arrow_schema,
)
from wire.checksum import crc32
from wire.errors import RecordError
from wire.message.flags import SysFlag
from wire.message.message_id import HOST_V4_BYTES
from wire.message.properties import PropertyName, parse_properties

_CRC_MASK: Final = 0x7FFFFFFF
_IN_PARTS: Final = SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP


class ColumnReader:
    """The maker of Arrow batches with the wanted columns.

    :param topic: the topic of the queue.
    :param broker_name: the broker of the queue.
    :param queue_id: the number of the queue, for error messages.
    :param fails: whether a damaged body is an error; otherwise the body is null.
    :param check_bodies: whether bodies are compared with their checksums.
    """

    def __init__(
        self,
        wanted: Sequence[WantedColumn],
        *,
        topic: str,
        broker_name: str,
        queue_id: int,
        fails: bool = True,
        check_bodies: bool = True,
    ) -> None:
        self._wanted = tuple(wanted)
        self._schema = arrow_schema(wanted)
        self._same: Mapping[str, str] = {"topic": topic, "brokerName": broker_name}
        self._queue = f"{topic}/{broker_name}/{queue_id}"
        self._fails = fails
        self._check_bodies = check_bodies

    def read(self, buffer: Whole, starts: Integers, tags: frozenset[str] = frozenset()) -> pa.RecordBatch:
        """Return one batch of the records that begin at ``starts``.

        :param tags: if there are any, only messages with one of these tags are returned.
        :raises RecordError: a record's parts do not add up.
        :raises BodyUnreadable: a body is damaged, and ``fails`` is set.
        """
        return self.read_groups(list(by_hosts(buffer, starts)), tags)

    def read_groups(self, groups: Sequence[Group], tags: frozenset[str] = frozenset()) -> pa.RecordBatch:
        """Return one batch of records that are grouped already; otherwise like ``read``."""
        batches = [self._read_alike(records) for _, records in groups]
        batch = batches[0]
        if len(groups) > 1:
            table = pa.Table.from_batches(batches).combine_chunks()
            order = np.concatenate([places for places, _ in groups if places is not None])
            batch = table.to_batches()[0].take(pa.array(np.argsort(order)))
        return self._with_tags(batch, groups, tags) if tags else batch

    def _with_tags(self, batch: pa.RecordBatch, groups: Sequence[Group], tags: frozenset[str]) -> pa.RecordBatch:
        """Return the rows with one of the tags.

        Brokers compare only hashes of tags, so the client compares the text.
        """
        chosen = np.zeros(batch.num_rows, np.bool_)
        for places, records in groups:
            column = pairs_of(records).column(PropertyName.TAGS)
            found = pc.is_in(column, pa.array(sorted(tags))).to_numpy(zero_copy_only=False)
            chosen[slice(None) if places is None else places] = found
        return batch if chosen.all() else batch.filter(pa.array(chosen))

    def _read_alike(self, records: Records) -> pa.RecordBatch:
        rows = _Rows(records, self._queue, fails=self._fails, check_bodies=self._check_bodies)
        rows.refuse_parts()
        arrays = [self._array(rows, entry.column) for entry in self._wanted]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, rows: _Rows, column: Column) -> pa.Array:
        same = self._same.get(column.name)
        if same is not None:
            return repeated((same,), len(rows.records))
        return _MAKERS[column.name](rows, column)


class _Rows:
    """Records and the values that several columns need, each computed at its first use."""

    def __init__(self, records: Records, queue: str, *, fails: bool, check_bodies: bool) -> None:
        self.records = records
        self._queue = queue
        self._fails = fails
        self._check_bodies = check_bodies
        self._hold = Hold()

    @cached_property
    def sys_flags(self) -> Integers:
        return self.records.integers("sys_flag")

    @cached_property
    def pairs(self) -> Pairs:
        return pairs_of(self.records)

    @cached_property
    def offset_ids(self) -> pa.Array:
        """The address, port and commit log offset of each record, in hexadecimal."""
        same = self.records.same_host("store_host")
        table = self.records.hosts("store_host") if same is None else np.frombuffer(same, np.uint8).reshape(1, -1)
        hosts = hexadecimal(table).view(np.uint64)
        words = np.empty((len(self.records), hosts.shape[1] + 2), np.uint64)
        words[:, :-2] = hosts
        words[:, -2:] = hexadecimal_words(self.records.integers("commit_log_offset"))
        return texts_column(words.view(np.uint8))

    @cached_property
    def bodies(self) -> tuple[pa.Array, pa.Array | None]:
        """The bodies as they were sent, and why some could not be read (None: all could be read)."""
        raw = self.records.bodies()
        errors = self._damaged(raw) if self._check_bodies else {}
        compressed = np.flatnonzero(self.sys_flags & SysFlag.COMPRESSED)
        if not len(compressed) and not errors:
            return raw, None
        changed: dict[int, bytes | None] = dict.fromkeys(errors)
        for row in compressed.tolist():
            if row not in errors:
                changed[row] = self._decompressed(raw, row, errors)
        if errors and self._fails:
            row = min(errors)
            raise BodyUnreadable(self._queue, int(self.records.integers("queue_offset")[row]), errors[row])
        return _replaced(raw, changed), _texts_at(errors, len(raw)) if errors else None

    def _decompressed(self, raw: pa.Array, row: int, errors: dict[int, str]) -> bytes | None:
        try:
            return decompress(raw[row].as_py(), int(self.sys_flags[row]), self._hold)
        except MessageRefused as error:
            errors[row] = error.problem
            return None

    def _damaged(self, raw: pa.Array) -> dict[int, str]:
        """Return the rows whose body does not match its checksum, each with the reason."""
        records = self.records
        # A loop in C; working on all bodies side by side in numpy was slower.
        found = np.fromiter(map(crc32, self._pieces(raw)), np.int64, len(records))
        stated = records.integers("body_crc")
        rows = np.flatnonzero((found & _CRC_MASK) != stated)
        return {
            row: f"is damaged: its checksum is {int(found[row]) & _CRC_MASK:#010x}, the record says {stated[row]:#010x}"
            for row in rows.tolist()
        }

    def _pieces(self, raw: pa.Array) -> Iterable[Whole]:
        """Return the bodies one by one."""
        records = self.records
        table = records.body_table()
        if table is not None and table.size:
            return chain.from_iterable(Struct(f"{table.shape[1]}s").iter_unpack(raw.buffers()[2][: table.size]))
        take: Callable[[slice], Whole] = records.buffer.__getitem__
        return map(take, records.body_slices()) if table is None else repeat(b"", len(records))

    def refuse_parts(self) -> None:
        """Refuse messages that hold messages (batch consume queues).

        This source cannot read the offsets of the inner messages.

        :raises RecordError: there is such a message.
        """
        found = np.flatnonzero(self.sys_flags & _IN_PARTS)
        if len(found):
            offset = int(self.records.integers("queue_offset")[int(found[0])])
            raise RecordError(
                f"queue {self._queue}, offset {offset}: a batch that was stored as one message (topic attribute "
                f"queue.type=BatchCQ) cannot be read by this source"
            )


def _replaced(values: pa.Array, changed: Mapping[int, bytes | None]) -> pa.Array:
    """Return the values with some rows changed."""
    if not changed:
        return values
    chosen = np.arange(len(values), dtype=np.int64)
    rows = sorted(changed)
    chosen[rows] = len(values) + np.arange(len(rows))
    new = pa.array([changed[row] for row in rows], values.type)
    return pa.concat_arrays([values, new]).take(pa.array(chosen))


def _texts_at(texts: Mapping[int, str], count: int) -> pa.Array:
    column: list[str | None] = [None] * count
    for row, text in texts.items():
        column[row] = text
    return pa.array(column, pa.string())


def _number(field: str) -> Callable[[_Rows, Column], pa.Array]:
    def column(rows: _Rows, kind: Column) -> pa.Array:
        width = np.int32 if kind.arrow == pa.int32() else np.int64
        return pa.array(rows.records.integers(field).astype(width))

    return column


def _moment(field: str) -> Callable[[_Rows, Column], pa.Array]:
    def column(rows: _Rows, _: Column) -> pa.Array:
        times_ms = rows.records.integers(field)
        is_none = (times_ms < FIRST_MS) | (times_ms > LAST_MS)
        if is_none.any():  # producers write what they like
            return pa.array(np.where(is_none, 0, times_ms) * 1000, mask=is_none).view(MOMENT)
        return pa.array(times_ms * 1000).view(MOMENT)

    return column


def _host(field: str) -> Callable[[_Rows, Column], pa.Array]:
    def column(rows: _Rows, _: Column) -> pa.Array:
        same = rows.records.same_host(field)
        return (
            _host_texts(rows.records.hosts(field)) if same is None else repeated((host_text(same),), len(rows.records))
        )

    return column


def _host_texts(hosts: NDArray[np.uint8]) -> pa.Array:
    """Return hosts as ``address:port``; a batch has few different hosts."""
    if hosts.shape[1] == HOST_V4_BYTES:
        encoded = pa.array(hosts.view(np.uint64).reshape(-1)).dictionary_encode()
        texts = [host_text(number.to_bytes(8, "little")) for number in encoded.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(encoded.indices)
    known: dict[bytes, str] = {}
    column = []
    for row in hosts:
        packed = row.tobytes()
        text = known.get(packed)
        if text is None:
            text = known[packed] = host_text(packed)
        column.append(text)
    return pa.array(column, pa.string())


def _properties(rows: _Rows, kind: Column) -> pa.Array:
    if kind is PROPERTIES_JSON or kind.arrow == pa.string():
        raw = rows.records.properties().to_pylist()
        return pa.array([msgspec.json.encode(parse_properties(text)).decode() for text in raw], pa.string())
    return map_column(rows.pairs, TEXTS)


def _message_id(rows: _Rows, _: Column) -> pa.Array:
    given = rows.pairs.column(PropertyName.UNIQ_KEY)
    return given if given.null_count == 0 else pc.coalesce(given, rows.offset_ids)


def _transaction_id(rows: _Rows, _: Column) -> pa.Array:
    named = rows.pairs.column(PropertyName.TRANSACTION_ID)
    is_transaction = (rows.sys_flags & SysFlag.TRANSACTION_MASK) != 0
    if not is_transaction.any():
        return named
    given = rows.pairs.column(PropertyName.UNIQ_KEY)
    return pc.coalesce(named, pc.if_else(pa.array(is_transaction), given, pa.scalar(None, pa.string())))


def _body_error(rows: _Rows, _: Column) -> pa.Array:
    errors = rows.bodies[1]
    return pa.nulls(len(rows.records), pa.string()) if errors is None else errors


_MAKERS: Final[Mapping[str, Callable[[_Rows, Column], pa.Array]]] = {
    "flag": _number("flag"),
    "body": lambda rows, _: rows.bodies[0],
    "properties": _properties,
    "queueId": _number("queue_id"),
    "queueOffset": _number("queue_offset"),
    "bornTimestamp": _moment("born_at_ms"),
    "storeTimestamp": _moment("stored_at_ms"),
    "tags": lambda rows, _: rows.pairs.column(PropertyName.TAGS),
    "keys": lambda rows, _: words_column(rows.pairs.column(PropertyName.KEYS), WORDS),
    "msgId": _message_id,
    "offsetMsgId": lambda rows, _: rows.offset_ids,
    "bornHost": _host("born_host"),
    "storeHost": _host("store_host"),
    "reconsumeTimes": _number("reconsume_times"),
    "sysFlag": _number("sys_flag"),
    "commitLogOffset": _number("commit_log_offset"),
    "transactionId": _transaction_id,
    BODY_ERROR.name: _body_error,
    PREPARED_OFFSET.name: _number("prepared_transaction_offset"),
}
