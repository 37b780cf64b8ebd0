"""Hashes of many keys at a time: ``wire.message.java_hash`` for columns of keys, without a loop over characters.

The characters of the keys are the lanes of one large number, and each step joins two neighbouring lanes to one of twice
the width, for all keys with one multiplication. Of keys of one length, as a stretch of the log mostly has them, this
costs a tenth of a loop; the tool is not compiled.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence

from wire.message.java_hash import hash_on, index_key_hash

_MASK = 0xFFFFFFFF
_MAX_LANE_BYTES = 64  # longer keys are hashed one by one
_LEAST_LANE_BYTES = 8
_WORD_CHARS = 4
_BATCH_BYTES = 32 * 1024
_LEAST_BATCH = 12  # fewer keys are hashed one by one, too: the steps take some microseconds however many there are


def _mask(lane_bytes: int, used_bytes: int) -> int:
    """A number whose bits are set in the low ``used_bytes`` of each lane."""
    lane = b"\xff" * used_bytes + bytes(lane_bytes - used_bytes)
    return int.from_bytes(lane * (_BATCH_BYTES // lane_bytes), "little")


_JOINS = tuple((width, _mask(2 * width, width), pow(31, width, 1 << 32)) for width in (1, 2, 4, 8, 16, 32))
"""Width of the lanes to be joined in bytes, a mask of every other lane, and the weight of the left one."""
_LOW_HALF = _mask(8, 4)
_LOW_31_BITS = _LOW_HALF ^ (_LOW_HALF & int.from_bytes(b"\x00\x00\x00\x80" * (_BATCH_BYTES // 4), "little"))
_ONES = _LOW_HALF // _MASK
_LOW_INT = 0 if sys.byteorder == "little" else 1
"""Which half of a lane of 64 bits holds the low 32."""


def index_key_hashes(topics: Sequence[str], keys: Sequence[str]) -> list[int]:
    """``index_key_hash`` of many keys, each with its topic, at a fraction of the cost."""
    if not keys:
        return []
    longest = max(map(len, keys))
    if longest > _MAX_LANE_BYTES or len(keys) < _LEAST_BATCH:
        return list(map(index_key_hash, topics, keys))
    lane_bytes = _LEAST_LANE_BYTES
    while lane_bytes < longest:
        lane_bytes *= 2
    count = _BATCH_BYTES // lane_bytes
    if len(keys) <= count:
        return _batch_hashes(topics, keys, lane_bytes)
    hashes: list[int] = []
    for start in range(0, len(keys), count):
        hashes += _batch_hashes(topics[start : start + count], keys[start : start + count], lane_bytes)
    return hashes


def _batch_hashes(topics: Sequence[str], keys: Sequence[str], lane_bytes: int) -> list[int]:
    text = "".join(keys)
    if len(text) != lane_bytes * len(keys):  # zeros in front of a key change nothing
        text = "".join([key.rjust(lane_bytes, "\0") for key in keys])
    if not text.isascii():
        return list(map(index_key_hash, topics, keys))
    wanted = list(zip(topics, map(len, keys), strict=True))
    parts = {(topic, chars): hash_on(0, topic + "#") * pow(31, chars, 1 << 32) & _MASK for topic, chars in set(wanted)}
    known = array("Q", map(parts.__getitem__, wanted))
    return _lane_hashes(text.encode(), lane_bytes, known).tolist()


def index_key_hashes_alike(topics: Sequence[str], text: bytes, key_chars: int, *, shared_chars: int = 0) -> array[int]:
    """``index_key_hash`` of ASCII keys of one length, joined to one text: the quickest way when there are many.

    :param topics: that of each, or a single one of all.
    :param shared_chars: so many characters all keys have in common at their begin, as unique keys of one producer
        have: they are weighed once.
    """
    count = len(text) // key_chars
    if key_chars > _MAX_LANE_BYTES or count < _LEAST_BATCH:
        keys = [str(text[at : at + key_chars], "ascii") for at in range(0, len(text), key_chars)]
        return array("i", index_key_hashes(topics if len(topics) == count else [topics[0]] * count, keys))
    lanes, lane_bytes = _in_lanes(text, key_chars, key_chars - shared_chars)
    head = str(text[: max(key_chars - lane_bytes, 0)], "ascii")
    weight = pow(31, key_chars - len(head), 1 << 32)
    parts = {topic: hash_on(0, f"{topic}#{head}") * weight & _MASK for topic in set(topics)}
    known = array("Q", parts.values()) * count if len(parts) == 1 else array("Q", map(parts.__getitem__, topics))
    hashes = array("i")
    most = _BATCH_BYTES // lane_bytes
    for start in range(0, count, most):
        part = lanes[start * lane_bytes : (start + most) * lane_bytes]
        hashed = _lane_hashes(part, lane_bytes, known[start : start + most])
        hashes += array("i", hashed.tobytes())[_LOW_INT::2]
    return hashes


def _in_lanes(text: bytes, key_chars: int, wanted_chars: int) -> tuple[bytes, int]:
    """At least the last ``wanted_chars`` of each key in lanes, and the bytes of a lane; zeros before shorter keys."""
    whole = key_chars % _WORD_CHARS == 0
    lane_bytes = _LEAST_LANE_BYTES
    while lane_bytes < (wanted_chars if whole else key_chars):
        lane_bytes *= 2
    if not whole:
        keys = [text[at : at + key_chars].rjust(lane_bytes, b"\0") for at in range(0, len(text), key_chars)]
        return b"".join(keys), lane_bytes
    words, width, lane = array("I", text), key_chars // _WORD_CHARS, lane_bytes // _WORD_CHARS
    if lane == width:
        return text, lane_bytes
    lanes = array("I", bytes(lane_bytes * (len(text) // key_chars)))
    for at in range(max(width - lane, 0), width):
        lanes[at - width + lane :: lane] = words[at::width]
    return lanes.tobytes(), lane_bytes


def _lane_hashes(text: bytes, lane_bytes: int, parts: array[int]) -> array[int]:
    """The hashes that index files keep, of ASCII keys in lanes.

    :param parts: what the text before each key adds.
    """
    hashed = _joined(text, lane_bytes) + _number(parts) & _LOW_HALF
    # abs() of the signed number: all bits turned over, plus one, where the sign is set; Integer.MIN_VALUE becomes 0.
    signs = hashed >> 31 & _ONES
    positive = (hashed ^ signs * _MASK) + signs & _LOW_31_BITS
    return _lanes(positive, len(parts))


def _joined(text: bytes, lane_bytes: int) -> int:
    """The hashes of texts of ``lane_bytes`` ASCII characters each, in lanes of 64 bits, less than 2^63.

    Sums need no cutting in between: a joined lane has twice the room, and 31^n is cut to 32 bits.
    """
    sums = int.from_bytes(text, "little")
    for width, mask, weight in _JOINS:
        if width == lane_bytes:
            break
        sums = (sums & mask) * weight + (sums >> 8 * width & mask)
    if lane_bytes == 8:
        return sums
    words = _lanes(sums, len(text) // 8)
    return _number(words[:: lane_bytes // 8]) & _LOW_HALF


def _lanes(number: int, count: int) -> array[int]:
    lanes = array("Q", number.to_bytes(8 * count, "little"))
    if sys.byteorder == "big":
        lanes.byteswap()
    return lanes


def _number(lanes: array[int]) -> int:
    if sys.byteorder == "big":
        lanes.byteswap()
    return int.from_bytes(lanes.tobytes(), "little")
