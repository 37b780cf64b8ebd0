"""Property strings with the same names in the same order, as pairs, by column.

Most strings of one program look alike. If the values have the same lengths too, the strings are a table of bytes: every
name and every value is in the same columns of each row. Otherwise the separators show where the values are.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gateway.spark.table.byte_tables import repeated, repeated_row, texts_column, texts_of, word_columns
from gateway.spark.table.records import Integers, slices

_NAME_END: Final = 1
_PAIR_END: Final = 2
_PLAIN_FROM: Final = 3
_PLAIN_END: Final = 128
"""The first byte value that belongs to a character of several bytes; the careful reader takes such strings."""


class _SameNames:
    """Pairs of messages that all have the same names, in the same order."""

    def __init__(self, count: int, names: tuple[str, ...]) -> None:
        self._count = count
        self._names = names

    @cached_property
    def offsets(self) -> Integers:
        """The index of each message's first pair, and the number of all pairs at the end."""
        return np.arange(self._count + 1, dtype=np.int64) * len(self._names)

    @cached_property
    def names(self) -> pa.Array:
        """The names of all messages one after the other."""
        return repeated(self._names, self._count)


class AlikePairs(_SameNames):
    """The pairs of property strings that are alike, with the same columns as ``PropertyPairs``.

    :param table: a row of bytes for each message.
    :param spans: the names of the pairs, and where in a row their values begin and end.
    :param varies: for each byte of a row, whether some rows differ in this byte.
    """

    def __init__(self, table: NDArray[np.uint8], spans: dict[str, tuple[int, int]], varies: NDArray[np.bool_]) -> None:
        super().__init__(len(table), tuple(spans))
        self._table = table
        self._spans = spans
        self._varies = varies

    def column(self, name: str) -> pa.Array:
        """Return the values of one name: a text for each message, null without a value."""
        if name not in self._spans:
            return pa.nulls(self._count, pa.string())
        begin, end = self._spans[name]
        if self._varies[begin:end].any():
            return texts_column(self._table[:, begin:end])
        return repeated((self._table[0, begin:end].tobytes().decode(),), self._count)

    @cached_property
    def values(self) -> pa.Array:
        """The values of all messages one after the other."""
        spans = self._spans.values()
        first = self._table[0]
        # What is the same in all rows is there already, when the batch before was of the same kind and size.
        parts = [first[begin:end] * (not self._varies[begin:end].any()) for begin, end in spans]
        data = repeated_row(np.concatenate(parts).tobytes(), len(self._table))
        at = 0
        for begin, end in spans:
            if self._varies[begin:end].any():
                data[:, at : at + end - begin] = self._table[:, begin:end]
            at += end - begin
        return texts_of(data, tuple(end - begin for begin, end in spans), len(self._table))


class NamedAlikePairs(_SameNames):
    """The pairs of property strings with the same names, and with values of different lengths.

    :param data: the buffer of the strings.
    :param names: the names of the pairs.
    :param begins: where each value of each message begins.
    :param sizes: how many bytes each value has.
    """

    def __init__(self, data: pa.Buffer, names: list[str], begins: Integers, sizes: Integers) -> None:
        super().__init__(len(begins), tuple(names))
        self._data = data
        self._places = {name: place for place, name in enumerate(names)}
        self._begins = begins
        self._sizes = sizes

    def column(self, name: str) -> pa.Array:
        """Return the values of one name: a text for each message, null without a value."""
        place = self._places.get(name)
        if place is None:
            return pa.nulls(len(self._begins), pa.string())
        return slices(self._data, self._begins[:, place], self._sizes[:, place], pa.string())

    @cached_property
    def values(self) -> pa.Array:
        """The values of all messages one after the other."""
        return slices(self._data, self._begins.reshape(-1), self._sizes.reshape(-1), pa.string())


def alike_pairs(table: NDArray[np.uint8]) -> AlikePairs | None:
    """Return the pairs of strings of one length.

    None if the strings are not alike, or are not as every client writes them.

    :param table: a row of bytes for each string, at least one.
    """
    first = table[0]
    cut = _cut(first.tobytes())
    in_value = np.zeros(len(first), np.bool_)
    for _, begin, end in cut:
        in_value[begin:end] = True
    if not cut or (first[in_value] < _PLAIN_FROM).any():
        return None
    varies = np.zeros(len(first), np.bool_)
    fillers = np.where(in_value, 0, ord(" ")).astype(np.uint8)
    for at, column in word_columns(table):
        word = slice(at, at + column.itemsize)
        changes = np.bitwise_or.reduce(column ^ column[0])
        if changes:
            varies[word] |= np.frombuffer(changes.tobytes(), np.uint8) != 0
            if varies[word][~in_value[word]].any() or not _is_plain(column | fillers[word].view(column.dtype)):
                return None
    return AlikePairs(table, {name: (begin, end) for name, begin, end in cut}, varies)


def _is_plain(words: NDArray[np.unsignedinteger[Any]]) -> bool:
    """Return whether each byte of the words is from ``_PLAIN_FROM`` to before ``_PLAIN_END``."""
    from_each, end_each = (
        words.dtype.type(int.from_bytes(bytes([byte]) * words.itemsize)) for byte in (_PLAIN_FROM, _PLAIN_END)
    )
    # A byte that is too small borrows from the bit that says that a byte is too large.
    return not ((words | (words - from_each)) & end_each).any()


def named_alike_pairs(data: pa.Buffer, bounds: NDArray[np.signedinteger[Any]]) -> NamedAlikePairs | None:
    """Return the pairs of strings of any lengths; None if their names differ, or if one is odd.

    :param bounds: where each string begins in ``data``, and where the last one ends.
    """
    count = len(bounds) - 1
    begin, end = int(bounds[0]), int(bounds[-1])
    text = np.frombuffer(data, np.uint8)[:end]
    cut = _cut(text[begin : int(bounds[1])].tobytes()) if count else []
    if not cut or text[begin:].max() >= _PLAIN_END:
        return None
    names = [name for name, _, _ in cut]
    found = np.flatnonzero(text[begin:] <= _PAIR_END) + begin
    if len(found) != 2 * len(names) * count:
        return None
    ends = found.reshape(count, 2 * len(names))
    # When the last one of each string ends it, the others lie within, as many as in the first string.
    if (ends[:, -1] + 1 != bounds[1:]).any() or (text[ends] != [_NAME_END, _PAIR_END] * len(names)).any():
        return None
    begins = np.empty_like(ends)
    begins[:, 0] = bounds[:-1]
    begins[:, 1:] = ends[:, :-1] + 1
    sizes = ends - begins
    if not _have_names(text, begins[:, 0::2], sizes[:, 0::2], names) or (sizes[:, 1::2] <= 0).any():
        return None
    return NamedAlikePairs(data, names, begins[:, 1::2], sizes[:, 1::2])


def _have_names(text: NDArray[np.uint8], begins: Integers, sizes: Integers, names: list[str]) -> bool:
    """Return whether each row has exactly these names at these places."""
    if (sizes != [len(name) for name in names]).any():
        return False
    for place, name in enumerate(names):
        every = np.ndarray((len(text) - len(name) + 1,), f"V{len(name)}", text, strides=(1,))
        if every[begins[:, place]].tobytes() != name.encode() * len(begins):
            return False
    return True


def _cut(text: bytes) -> list[tuple[str, int, int]]:
    """Return each name, and where its value begins and ends; an empty list for an odd string."""
    if not text.isascii():
        return []
    found: list[tuple[str, int, int]] = []
    at = 0
    while at < len(text):
        name_end = text.find(_NAME_END, at)
        end = text.find(_PAIR_END, at)
        end = len(text) if end < 0 else end
        if not at < name_end < end - 1:
            return []
        found.append((text[at:name_end].decode(), name_end + 1, end))
        at = end + 1
    return found if len({name for name, _, _ in found}) == len(found) else []
