"""The step from messages to index entries: the keys of a message, and their hashes.

The keys of a message are its unique key, each word of its KEYS and, as in Apache RocketMQ 5.5, its tag. Rolled back
messages have no keys, prepared messages do. (Upstream: ``IndexService.buildIndex``.)
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i64

from gateway.store.log.copied_records import KeyedRecord
from gateway.store.put_result import PutOutcome, PutResult, PutRun
from wire.message.flags import SysFlag
from wire.message.java_hash import hash_on, positive_hash
from wire.message.properties import PropertyName, parse_properties
from wire.message.record import StoredMessage

ROW_BYTES: Final = 20
OFFSET_AT: Final = 4
STORED_AT: Final = 12
"""The place of the store time in a row.

Rows of entries that wait: hash (int32), commit log offset (int64), store time in ms (int64).
"""

MAX_KNOWN_TOPICS = 1024
"""The most topics whose part of the hash is remembered; if there are more, all are forgotten."""
_TAIL_CHARS: Final = 8
"""The number of last characters that change in a unique key from message to message.

The earlier characters of a key name the producer and a span of 65 seconds.
"""
_TAG_MARK: Final = "T#"
"""The text before a tag when a key is hashed. On disk: never change (upstream ``MessageConst.INDEX_TAG_TYPE``)."""
_ROLLBACK: Final = SysFlag.TRANSACTION_ROLLBACK
_MASK: Final = SysFlag.TRANSACTION_MASK
_UNIQ_KEY: Final = PropertyName.UNIQ_KEY
_KEYS: Final = PropertyName.KEYS
_TAGS: Final = PropertyName.TAGS


class KeyKind(Enum):
    """The kind of key that a query asks for (upstream ``MessageConst.INDEX_KEY_TYPE`` and the like)."""

    ANY = "K"  # a unique key or one of KEYS: both are hashed alike
    UNIQUE = "U"
    TAG = "T"

    def indexed(self, key: str) -> str:
        """Return the text that is hashed for a key."""
        return tag_key(key) if self is KeyKind.TAG else key

    def matches(self, message: StoredMessage, key: str) -> bool:
        """Return whether a message has the key."""
        find = message.property_map.get
        if self is KeyKind.TAG:
            return find(_TAGS) == key
        return find(_UNIQ_KEY) == key or (self is KeyKind.ANY and key in (find(_KEYS) or "").split(" "))


def tag_key(tag: str) -> str:
    """Return the key under which messages of a tag are found."""
    return _TAG_MARK + tag


class TopicHashes:
    """The hashes of one topic's keys. The part that a unique key shares with the key before is not hashed again."""

    __slots__ = ("_head", "_head_hash", "_tag", "_tag_hash", "_topic_hash")

    def __init__(self, topic: str) -> None:
        self._topic_hash: i64 = hash_on(0, topic + "#")
        self._head = ""
        self._head_hash: i64 = self._topic_hash
        self._tag = ""
        self._tag_hash: i64 = 0

    def of_unique_key(self, key: str) -> i64:
        """Return the hash of a unique key, as ``index_key_hash`` does."""
        head_chars: i64 = len(self._head)
        tail_chars: i64 = len(key) - head_chars
        if tail_chars > _TAIL_CHARS or not key.startswith(self._head):
            self._head = key[:-_TAIL_CHARS]
            self._head_hash = hash_on(self._topic_hash, self._head)
            head_chars = len(self._head)
        return positive_hash(hash_on(self._head_hash, key, head_chars))

    def of_word(self, word: str) -> i64:
        """Return the hash of a word of KEYS, as ``index_key_hash`` does."""
        return positive_hash(hash_on(self._topic_hash, word))

    def of_tag(self, tag: str) -> i64:
        """Return the hash of a tag's ``tag_key``, as ``index_key_hash`` does."""
        if tag != self._tag:
            self._tag_hash = positive_hash(hash_on(self._topic_hash, tag_key(tag)))
            self._tag = tag
        return self._tag_hash


class IndexEntries:
    """The entries of messages in the order of the log, as rows of ``ROW_BYTES``.

    ``message_count``: the number of messages that have an entry; ``first_offset``: the log offset of the first of them.
    """

    def __init__(self) -> None:
        self.message_count: i64 = 0
        self.first_offset: i64 = 0
        self._rows = BytesWriter()
        self._topics: dict[str, TopicHashes] = {}

    @property
    def count(self) -> int:
        """The number of entries."""
        return len(self._rows) // ROW_BYTES

    def add_outcomes(self, outcomes: Sequence[PutOutcome], most: i64) -> int:
        """Add the entries of dispatched messages; return how many outcomes were taken.

        :param most: no further outcome is taken once there are this many entries or more.
        """
        taken = 0
        end: i64 = most * ROW_BYTES
        for outcome in outcomes:
            if len(self._rows) >= end:
                break
            taken += 1
            if isinstance(outcome, PutResult):
                message = outcome.message
                if message.sys_flag & _MASK != _ROLLBACK:
                    self._add(outcome.commit_log_offset, outcome.stored_at_ms, outcome.topic, message.property_map)
            elif isinstance(outcome, PutRun):
                self._add_run(outcome)
        return taken

    def _add_run(self, outcome: PutRun) -> None:
        run = outcome.run
        topic, stored_at_ms = outcome.topic, outcome.stored_at_ms
        for number, offset in enumerate(outcome.places()):
            form = run.forms[number]
            self._add_keys(offset, stored_at_ms, topic, run.unique_keys[number], form.keys, form.tag)

    def add_copied(self, records: Sequence[KeyedRecord], most: i64) -> int:
        """Add the entries of copied records, none of which is rolled back; return how many records were taken.

        :param most: no further record is taken once there are this many entries or more.
        """
        taken = 0
        end: i64 = most * ROW_BYTES
        for topic, offset, stored_at_ms, properties in records:
            if len(self._rows) >= end:
                break
            taken += 1
            self._add(offset, stored_at_ms, topic, parse_properties(properties))
        return taken

    def add_messages(self, messages: Sequence[StoredMessage]) -> None:
        """Add the entries of messages that were read from the log."""
        for message in messages:
            if message.sys_flag & _MASK != _ROLLBACK:
                self._add(message.commit_log_offset, message.stored_at_ms, message.topic, message.property_map)

    def _add(self, offset: i64, stored_at_ms: i64, topic: str, own: dict[str, str]) -> None:
        self._add_keys(offset, stored_at_ms, topic, own.get(_UNIQ_KEY), own.get(_KEYS), own.get(_TAGS))

    def _add_keys(
        self, offset: i64, stored_at_ms: i64, topic: str, unique_key: str | None, words: str | None, tag: str | None
    ) -> None:
        rows = self._rows
        before: i64 = len(rows)
        hashes = self._topics.get(topic)
        if hashes is None:
            hashes = self._know(topic)
        if unique_key:
            _write_row(rows, hashes.of_unique_key(unique_key), offset, stored_at_ms)
        if words:
            for word in words.split(" "):
                if word:
                    _write_row(rows, hashes.of_word(word), offset, stored_at_ms)
        if tag:
            _write_row(rows, hashes.of_tag(tag), offset, stored_at_ms)
        if len(rows) > before:
            if before == 0:
                self.first_offset = offset
            self.message_count += 1

    def _know(self, topic: str) -> TopicHashes:
        if len(self._topics) >= MAX_KNOWN_TOPICS:
            self._topics.clear()
        hashes = self._topics[topic] = TopicHashes(topic)
        return hashes

    def rows(self) -> bytes:
        """Return all rows."""
        return self._rows.getvalue()

    def first(self, messages: i64, most: i64) -> tuple[bytes, int]:
        """Return the rows of the first messages, and the number of these messages.

        :param messages: the most messages; fewer once there are ``most`` rows, because a message may have thousands of
            keys.
        """
        rows = self._rows.getvalue()
        if messages >= self.message_count and len(rows) <= most * ROW_BYTES:
            return rows, self.message_count
        return _first_of(rows, messages, most * ROW_BYTES)

    def drop(self, taken: bytes, messages: i64) -> None:
        """Forget the rows that ``first`` returned.

        :param messages: the number of messages to which the rows belong.
        """
        rest = self._rows.getvalue()[len(taken) :]
        self._rows = BytesWriter()
        self._rows.write(rest)
        self.message_count = self.message_count - messages if rest else 0
        self.first_offset = read_i64_be(rest, OFFSET_AT) if rest else 0


def _write_row(rows: BytesWriter, key_hash: int, offset: i64, stored_at_ms: i64) -> None:
    write_i32_be(rows, key_hash)
    write_i64_be(rows, offset)
    write_i64_be(rows, stored_at_ms)


def _first_of(rows: bytes, messages: i64, most_bytes: i64) -> tuple[bytes, int]:
    at: i64 = 0
    end: i64 = len(rows)
    count: i64 = 0
    previous: i64 = -1
    while at < end:
        offset = read_i64_be(rows, at + OFFSET_AT)
        if offset != previous:
            if count == messages or (at >= most_bytes and count > 0):
                break
            count += 1
            previous = offset
        at += ROW_BYTES
    return rows[:at], count


def rows_from(rows: bytes, first_offset: i64) -> bytes:
    """Return the rows of messages at or after a log offset."""
    at: i64 = 0
    end: i64 = len(rows)
    while at < end and read_i64_be(rows, at + OFFSET_AT) < first_offset:
        at += ROW_BYTES
    return rows[at:] if at else rows


def rows_without(rows: bytes, is_known: Callable[[int, int], bool]) -> bytes:
    """Return only the rows whose hash and offset are not known."""
    starts = range(0, len(rows), ROW_BYTES)
    kept = [at for at in starts if not is_known(read_i32_be(rows, at), read_i64_be(rows, at + OFFSET_AT))]
    return b"".join([rows[at : at + ROW_BYTES] for at in kept])


MAX_SECONDS: Final = 0x7FFFFFFF


def entry_seconds(begin_ms: i64, stored_at_ms: i64) -> int:
    """Return the age that an entry keeps: seconds since the file's first store time, 0 … 2^31−1.

    The age is 0 while the file has no first store time.
    """
    if begin_ms <= 0 or stored_at_ms <= begin_ms:
        return 0
    return min((stored_at_ms - begin_ms) // 1000, MAX_SECONDS)
