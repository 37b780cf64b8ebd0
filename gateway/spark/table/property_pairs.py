"""Property strings of many messages as pairs of names and values, by column.

The format and its leniency are those of ``wire.message.properties``. A part that is not a pair with a name and a value
is dropped. The last one of a repeated name counts. Bytes that are not UTF-8 become U+FFFD.

Strings in the form that every client writes are cut by numpy. Odd strings are first rewritten by that module, so that
both readers agree.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gateway.spark.table.alike_pairs import AlikePairs, NamedAlikePairs, alike_pairs, named_alike_pairs
from gateway.spark.table.byte_tables import is_visible_ascii
from gateway.spark.table.records import Integers, Records, slices
from wire.message.properties import build_properties, parse_properties

_NAME_END: Final = 1
_PAIR_END: Final = 2


class PropertyPairs:
    """The pairs of one property string per message.

    :param names: the names of all messages one after the other.
    :param values: the values of all messages one after the other.
    :param offsets: the index of each message's first pair, and the number of all pairs at the end.
    """

    __slots__ = ("_codes", "_known_names", "_rows", "names", "offsets", "values")

    def __init__(self, names: pa.Array, values: pa.Array, offsets: Integers) -> None:
        self.names = names
        self.values = values
        self.offsets = offsets
        encoded = names.dictionary_encode()
        self._codes = encoded.indices.to_numpy()
        self._known_names: list[str] = encoded.dictionary.to_pylist()
        self._rows: Integers | None = None

    def column(self, name: str) -> pa.Array:
        """Return the values of one name: a text for each message, null without a value."""
        count = len(self.offsets) - 1
        if name not in self._known_names:
            return pa.nulls(count, pa.string())
        pairs = np.flatnonzero(self._codes == self._known_names.index(name))
        rows = self._row_of_pair()[pairs]
        if len(rows) == count:  # each has it: names do not repeat within a message
            return self.values.take(pa.array(pairs))
        places = np.zeros(count, np.int64)
        absent = np.ones(count, np.bool_)
        places[rows] = pairs
        absent[rows] = False
        return self.values.take(pa.array(places, mask=absent))

    def rows_with_repeats(self) -> Integers:
        """Return the messages that have a name more than once."""
        counts = np.diff(self.offsets)
        codes = self._codes
        if len(counts) and counts[0] and (counts == counts[0]).all():
            by_row = codes.reshape(-1, counts[0])
            if (by_row == by_row[0]).all() and len(set(by_row[0].tolist())) == counts[0]:
                return np.empty(0, np.int64)
        marks = np.sort(self._row_of_pair() * max(len(self._known_names), 1) + codes)
        repeated: Integers = marks[1:][marks[1:] == marks[:-1]] // max(len(self._known_names), 1)
        return np.unique(repeated)

    def _row_of_pair(self) -> Integers:
        if self._rows is None:
            self._rows = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        return self._rows


Pairs: TypeAlias = PropertyPairs | AlikePairs | NamedAlikePairs
"""One of three kinds of pairs, all with the same columns."""


def pairs_of(records: Records) -> Pairs:
    """Return the pairs of the records' properties."""
    table = records.property_table()
    alike = None if table is None else alike_pairs(table)
    return property_pairs(records.properties()) if alike is None else alike


def property_pairs(raw: pa.Array) -> Pairs:
    """Return the pairs of property strings, given as an Arrow array of bytes without nulls."""
    _, offsets, data = raw.buffers()
    if data is not None:
        alike = named_alike_pairs(data, np.frombuffer(offsets, np.int32)[raw.offset : raw.offset + len(raw) + 1])
        if alike is not None:
            return alike
    try:
        pairs, odd = _cut(raw)
    except pa.ArrowInvalid:  # something is not UTF-8
        pairs, odd = None, np.arange(len(raw), dtype=np.int64)
    if pairs is not None:
        odd = pairs.rows_with_repeats()
        if not len(odd):
            return pairs
    return property_pairs(_normalised(raw, odd))


def _normalised(raw: pa.Array, odd: Integers) -> pa.Array:
    """Return the strings, the odd ones rewritten in the form of clients."""
    places = pa.array(odd)
    written = [build_properties(parse_properties(text)) for text in raw.take(places).to_pylist()]
    chosen = np.arange(len(raw), dtype=np.int64)
    chosen[odd] = len(raw) + np.arange(len(odd))
    return pa.concat_arrays([raw, pa.array(written, pa.binary())]).take(pa.array(chosen))


def _cut(raw: pa.Array) -> tuple[PropertyPairs | None, Integers]:
    """Return the pairs; or None and the messages with odd strings.

    :raises pyarrow.ArrowInvalid: a name or a value is not UTF-8.
    """
    count = len(raw)
    _, offsets_buffer, data = raw.buffers()
    bounds = np.frombuffer(offsets_buffer, np.int32)[raw.offset : raw.offset + count + 1].astype(np.int64)
    if data is None or bounds[0] == bounds[-1]:
        empty = pa.array([], pa.string())
        return PropertyPairs(empty, empty, np.zeros(count + 1, np.int64)), np.empty(0, np.int64)
    text = np.frombuffer(data, np.uint8)
    at, kinds, firsts = _separators(text, bounds)
    odd = _odd_rows(at, kinds, firsts, bounds)
    if len(odd):
        return None, odd
    name_ends, value_ends = at[0::2], at[1::2]
    offsets = firsts >> 1
    name_starts = np.empty_like(name_ends)
    name_starts[1:] = value_ends[:-1] + 1
    has_pairs = np.flatnonzero(np.diff(offsets))
    name_starts[offsets[has_pairs]] = bounds[has_pairs]
    names = slices(data, name_starts, name_ends - name_starts).cast(pa.string())
    values = slices(data, name_ends + 1, value_ends - name_ends - 1).cast(pa.string())
    return PropertyPairs(names, values, offsets), odd


def _separators(text: NDArray[np.uint8], bounds: Integers) -> tuple[Integers, NDArray[np.uint8], Integers]:
    """Return the ends of names and values, the kind of each end, and the index of each message's first end.

    A last value without its 0x02 ends with its string. A 0x01 inside a value belongs to the value.
    """
    begin, end = int(bounds[0]), int(bounds[-1])
    window = text[begin:end]
    at = np.flatnonzero((window == _NAME_END) | (window == _PAIR_END)) + begin
    kinds = text[at]
    firsts = np.searchsorted(at, bounds, "left")
    ends = bounds[1:]
    is_unended = (text[np.maximum(ends - 1, 0)] != _PAIR_END) & (ends > bounds[:-1])
    if is_unended.any():
        places = firsts[1:][is_unended]
        at = np.insert(at, places, ends[is_unended])
        kinds = np.insert(kinds, places, _PAIR_END)
        firsts[1:] += np.cumsum(is_unended)
    within_value = np.zeros(len(at), np.bool_)
    within_value[1:] = (kinds[1:] == _NAME_END) & (kinds[:-1] == _NAME_END)
    within_value[firsts[:-1][firsts[:-1] < len(at)]] = False
    if within_value.any():
        kept = ~within_value
        firsts = np.concatenate(([0], np.cumsum(kept)))[firsts]
        at, kinds = at[kept], kinds[kept]
    return at, kinds, firsts


def _odd_rows(at: Integers, kinds: NDArray[np.uint8], firsts: Integers, bounds: Integers) -> Integers:
    """Return the messages whose name ends and value ends do not alternate, or that have an empty name or value."""
    counts = np.diff(firsts)
    rows = np.repeat(np.arange(len(counts)), counts)
    turn = (np.arange(len(at)) - firsts[rows]) & 1
    starts = np.empty_like(at)
    starts[1:] = at[:-1] + 1
    is_first = firsts[:-1][counts > 0]
    starts[is_first] = bounds[:-1][counts > 0]
    bad = rows[(kinds != turn + 1) | (at <= starts)]
    return np.union1d(bad, np.flatnonzero(counts & 1))


def map_column(pairs: Pairs, kind: pa.MapType) -> pa.Array:
    """Return the pairs as one map for each message."""
    return pa.MapArray.from_arrays(pa.array(pairs.offsets.astype(np.int32)), pairs.names, pairs.values, type=kind)


def words_column(texts: pa.Array, kind: pa.ListType) -> pa.Array:
    """Split texts at white space; a null or blank text gives an empty list."""
    if texts.null_count == len(texts):
        empty = pa.array(np.zeros(len(texts) + 1, np.int32))
        return pa.ListArray.from_arrays(empty, pa.array([], pa.string()), type=kind)
    if not texts.null_count and is_visible_ascii(texts) and pc.min(pc.binary_length(texts)).as_py():
        return pa.ListArray.from_arrays(pa.array(np.arange(len(texts) + 1, dtype=np.int32)), texts, type=kind)
    trimmed = pc.utf8_trim_whitespace(texts.fill_null(""))
    words = pc.utf8_split_whitespace(trimmed)
    counts = np.where(pc.equal(trimmed, "").to_numpy(zero_copy_only=False), 0, pc.list_value_length(words).to_numpy())
    flat = words.flatten()
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    if len(flat) != offsets[-1]:
        flat = flat.filter(pc.not_equal(flat, ""))
    return pa.ListArray.from_arrays(pa.array(offsets), flat, type=kind)
