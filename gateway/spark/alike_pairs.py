"""Property strings of many messages that differ in values of the same lengths only, as pairs, by column.

What one program sends mostly looks like that: the names, their order and the lengths are the same from message to
message. Such strings are a table of bytes: every name and every value stands in the same columns of each row.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gateway.spark.records import Integers

_NAME_END: Final = 1
_PAIR_END: Final = 2
_PLAIN_FROM: Final = 3
_PLAIN_END: Final = 128
"""Bytes from here on belong to characters of several, which are for the careful reader to look at."""


class AlikePairs:
    """The pairs of property strings that are alike; the same columns as ``PropertyPairs``.

    :param table: a row of bytes for each message.
    :param names: of the pairs; ``spans`` says where in a row their values begin and end.
    """

    def __init__(self, table: NDArray[np.uint8], names: list[str], spans: list[tuple[int, int]]) -> None:
        self._table = table
        self._spans = dict(zip(names, spans, strict=True))

    def column(self, name: str) -> pa.Array:
        """The values of one name: a text for each message, null where it has none."""
        count = len(self._table)
        if name not in self._spans:
            return pa.nulls(count, pa.string())
        begin, end = self._spans[name]
        return _texts(self._table[:, begin:end].tobytes(), _bounds((end - begin,), count))

    @cached_property
    def offsets(self) -> Integers:
        """Where the pairs of each message begin; one more than there are messages."""
        return np.arange(len(self._table) + 1, dtype=np.int64) * len(self._spans)

    @cached_property
    def names(self) -> pa.Array:
        """The names of all messages one after the other."""
        return _repeated(tuple(self._spans), len(self._table))

    @cached_property
    def values(self) -> pa.Array:
        """The values of all messages one after the other."""
        sizes = tuple(end - begin for begin, end in self._spans.values())
        data = np.empty((len(self._table), sum(sizes)), np.uint8)
        at = 0
        for (begin, end), size in zip(self._spans.values(), sizes, strict=True):
            data[:, at : at + size] = self._table[:, begin:end]
            at += size
        return _texts(data, _bounds(sizes, len(self._table)))


def alike_pairs(data: pa.Buffer, bounds: NDArray[np.signedinteger[Any]]) -> AlikePairs | None:
    """The pairs of strings, None when these are not alike or not as every client writes them.

    :param bounds: where each string begins in ``data``, and where the last one ends.
    """
    count = len(bounds) - 1
    size = int(bounds[1] - bounds[0]) if count else 0
    if not size or (np.diff(bounds) != size).any():
        return None
    table = np.frombuffer(data, np.uint8)[int(bounds[0]) : int(bounds[-1])].reshape(count, size)
    cut = _cut(table[0].tobytes())
    if cut is None:
        return None
    names, spans = cut
    in_value = np.zeros(size, np.bool_)
    for begin, end in spans:
        in_value[begin:end] = True
    differs = np.bitwise_or.reduce(table ^ table[0], axis=0)
    if differs[~in_value].any():
        return None
    # Numbers below the first plain byte become the largest ones.
    highest = np.maximum.reduce(table - np.uint8(_PLAIN_FROM), axis=0)
    if (highest[in_value] >= _PLAIN_END - _PLAIN_FROM).any():
        return None
    return AlikePairs(table, names, spans)


def _cut(text: bytes) -> tuple[list[str], list[tuple[int, int]]] | None:
    """Names, and where their values lie; None for a string that is odd."""
    if not text.isascii():
        return None
    names: list[str] = []
    spans: list[tuple[int, int]] = []
    at = 0
    while at < len(text):
        name_end = text.find(_NAME_END, at)
        end = text.find(_PAIR_END, at)
        end = len(text) if end < 0 else end
        if not at < name_end < end - 1:
            return None
        names.append(text[at:name_end].decode())
        spans.append((name_end + 1, end))
        at = end + 1
    return (names, spans) if len(set(names)) == len(names) else None


@lru_cache(maxsize=8)
def _repeated(texts: tuple[str, ...], count: int) -> pa.Array:
    """The same texts for each of ``count`` rows; batches of one size need the same again and again."""
    encoded = [text.encode() for text in texts]
    return _texts(b"".join(encoded) * count, _bounds(tuple(map(len, encoded)), count))


@lru_cache(maxsize=8)
def _bounds(sizes: tuple[int, ...], count: int) -> NDArray[np.int32]:
    """Where texts of these sizes begin, for each of ``count`` rows of them, and where the last one ends."""
    width = sum(sizes)
    bounds = np.empty(count * len(sizes) + 1, np.int32)
    within = np.cumsum((0, *sizes[:-1]), dtype=np.int32)
    np.add.outer(np.arange(count, dtype=np.int32) * width, within, out=bounds[:-1].reshape(count, len(sizes)))
    bounds[-1] = count * width
    return bounds


def _texts(data: bytes | NDArray[np.uint8], bounds: NDArray[np.int32]) -> pa.Array:
    return pa.Array.from_buffers(pa.string(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
