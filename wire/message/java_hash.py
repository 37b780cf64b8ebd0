"""Java's ``String.hashCode()``: it decides tags codes in consume queues and slots in index files.

    h = 0; for every UTF-16 unit u: h = 31 * h + u, kept to 32 bits, read as signed

A loop in Python costs 2–3 µs for a unique key of 32 characters. The text is cut instead, since
hash(a + b) = hash(a) · 31^len(b) + hash(b): its head (topic, address, process id, instance, minute: the same
for the messages that one producer sends within 65 s) is looked up in a bounded cache, and its last eight
characters are taken as four pairs, each pair's hash from a table.

``index_key_hashes`` takes many keys at a time: their characters are the lanes of one large number, and each step
joins two neighbouring lanes to one of twice the width, for all keys with one multiplication.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from operator import mul
from typing import cast

_MASK = 0xFFFFFFFF
_TAIL_CHARS = 8  # four pairs: what changes in a unique key from message to message
_BLOCK_CHARS = 256  # powers are kept for this many characters; longer text goes block by block
MAX_CACHED_HEADS = 4096
"""Heads remembered; the cache is emptied when it is full."""
MAX_CACHED_HEAD_CHARS = 192
"""Longer heads are computed each time. A topic and the head of a unique key take 127 + 1 + 24 at most."""

_POWERS = tuple(pow(31, exponent, 1 << 32) for exponent in range(_BLOCK_CHARS, -1, -1))
"""31^256 … 31^0, so that the last n entries weigh n characters."""
_P8, _P6, _P4, _P2 = (pow(31, exponent, 1 << 32) for exponent in (8, 6, 4, 2))
_UTF_16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"
_four_pairs = struct.Struct(">4H").unpack


def _pair_table() -> list[int]:
    """31·a + b at index 256·a + b for all ASCII pairs; equal numbers are one object, so it takes 256 KiB."""
    numbers = list(range(31 * 127 + 127 + 1))
    pairs: list[int] = []
    for first in range(128):
        pairs += numbers[31 * first : 31 * first + 128]
        pairs += numbers[:1] * 128  # no ASCII character: never asked for
    return pairs


_PAIRS = _pair_table()
_heads: dict[str, int] = {}

_MAX_LANE_BYTES = 64  # longer keys are hashed one by one
_LEAST_LANE_BYTES = 8
_WORD_CHARS = 4
_BATCH_BYTES = 32 * 1024
_LEAST_BATCH = 12  # fewer keys are hashed one by one, too: the steps take some microseconds however many there are
MAX_CACHED_TOPICS = 1024
"""Topics whose part in the hash is remembered, for each length of key; the cache is emptied when it is full."""


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
_topic_parts: tuple[dict[str, int], ...] = tuple({} for _ in range(_MAX_LANE_BYTES + 1))
"""By the length of the key."""


def _weigh(units: bytes | array[int]) -> int:
    """The unsigned hash of UTF-16 units, at C speed in blocks."""
    hashed = 0
    for start in range(0, len(units), _BLOCK_CHARS):
        block = units[start : start + _BLOCK_CHARS]
        count = len(block)
        weighed: int = sum(map(mul, _POWERS[-count:], block))
        hashed = (hashed * _POWERS[-count - 1] + weighed) & _MASK
    return hashed


def _utf16_units(text: str) -> array[int]:
    return array("H", text.encode(_UTF_16, "surrogatepass"))


def _head_hash(head: str) -> int:
    """The head's part in the hash of the whole, and remember it."""
    hashed = _weigh(head.encode()) * _P8 & _MASK
    if len(head) <= MAX_CACHED_HEAD_CHARS:
        if len(_heads) >= MAX_CACHED_HEADS:
            _heads.clear()
        _heads[head] = hashed
    return hashed


def unsigned_hash(text: str) -> int:
    """``hashCode`` as an unsigned 32-bit number."""
    if not text.isascii():
        return _weigh(_utf16_units(text))
    if len(text) < _TAIL_CHARS:
        return _weigh(text.encode())
    head = text[:-_TAIL_CHARS]
    hashed = _heads.get(head)
    if hashed is None:
        hashed = _head_hash(head)
    a, b, c, d = _four_pairs(text[-_TAIL_CHARS:].encode())
    tail: int = _PAIRS[a] * _P6 + _PAIRS[b] * _P4 + _PAIRS[c] * _P2 + _PAIRS[d]
    return (hashed + tail) & _MASK


def java_string_hash(text: str) -> int:
    """``text.hashCode()`` as Java returns it: a signed 32-bit number."""
    hashed = unsigned_hash(text)
    return hashed - 0x1_0000_0000 if hashed & 0x8000_0000 else hashed


def index_key_hash(topic: str, key: str) -> int:
    """The hash an index file keeps for a key: of ``topic#key``, made positive; 0 … 2^31−1.

    Integer.MIN_VALUE, which has no positive counterpart, becomes 0 (upstream
    ``IndexFile.indexKeyHashMethod``).
    """
    hashed = unsigned_hash(f"{topic}#{key}")
    if hashed & 0x8000_0000:
        hashed = 0x1_0000_0000 - hashed
        return 0 if hashed == 0x8000_0000 else hashed
    return hashed


def index_key_hashes(topics: Sequence[str], keys: Sequence[str]) -> list[int]:
    """``index_key_hash`` of many keys, each with its topic, at a fraction of the cost."""
    if not keys:
        return []
    lengths = set(map(len, keys))
    longest = max(lengths)
    if longest > _MAX_LANE_BYTES or len(keys) < _LEAST_BATCH:
        return list(map(index_key_hash, topics, keys))
    text = "".join(keys)
    if len(lengths) == 1 and longest and text.isascii():
        shared_chars = _shared_chars(min(keys), max(keys))
        return index_key_hashes_alike(topics, text.encode(), longest, shared_chars=shared_chars).tolist()
    lane_bytes = 8
    while lane_bytes < longest:
        lane_bytes *= 2
    count = _BATCH_BYTES // lane_bytes
    if len(keys) <= count:
        return _batch_hashes(topics, keys, lane_bytes)
    hashes: list[int] = []
    for start in range(0, len(keys), count):
        hashes += _batch_hashes(topics[start : start + count], keys[start : start + count], lane_bytes)
    return hashes


def _shared_chars(least: str, greatest: str) -> int:
    """How many characters two different texts have in common at their begin, and all those between them."""
    for count, (one, other) in enumerate(zip(least, greatest, strict=False)):
        if one != other:
            return count
    return 0


def _batch_hashes(topics: Sequence[str], keys: Sequence[str], lane_bytes: int) -> list[int]:
    text = "".join(keys)
    if len(text) != lane_bytes * len(keys):  # zeros in front of a key change nothing
        text = "".join([key.rjust(lane_bytes, "\0") for key in keys])
    if not text.isascii():
        return list(map(index_key_hash, topics, keys))
    lengths = list(map(len, keys))
    parts = [_topic_parts[length].get(topic) for topic, length in zip(topics, lengths, strict=True)]
    known = array("Q", list(map(_topic_part, topics, lengths)) if None in parts else cast("list[int]", parts))
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
    weight = _POWERS[len(head) - key_chars - 1]
    parts = {topic: unsigned_hash(f"{topic}#{head}") * weight & _MASK for topic in set(topics)}
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


def _topic_part(topic: str, key_chars: int) -> int:
    """What ``topic#`` adds to the hash of a key of some length."""
    part = unsigned_hash(topic + "#") * _POWERS[-key_chars - 1] & _MASK
    known = _topic_parts[key_chars]
    if len(known) >= MAX_CACHED_TOPICS:
        known.clear()
    known[topic] = part
    return part


def _lanes(number: int, count: int) -> array[int]:
    lanes = array("Q", number.to_bytes(8 * count, "little"))
    if sys.byteorder == "big":
        lanes.byteswap()
    return lanes


def _number(lanes: array[int]) -> int:
    if sys.byteorder == "big":
        lanes.byteswap()
    return int.from_bytes(lanes.tobytes(), "little")
