"""From messages to index entries, many at a time: which keys a message has, and their hashes.

The keys of a message are its unique key, each word of its KEYS and, as Apache RocketMQ 5.5 has it, its tag. Rolled
back messages have none, prepared ones do. (Upstream: ``IndexService.buildIndex``.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from itertools import compress
from typing import Final, NamedTuple, cast

from gateway.store.put_result import PutOutcome, PutResult, PutRun
from wire.message.flags import SysFlag
from wire.message.java_hash import index_key_hash, index_key_hashes
from wire.message.properties import PropertyName
from wire.message.record import StoredMessage

MAX_KNOWN_TAGS = 4096
"""Tags (of a topic) whose hash is remembered; all are forgotten when there are more."""
_TAG_MARK = "T#"
"""Stands before a tag where a key is hashed. On disk: never change (upstream ``MessageConst.INDEX_TAG_TYPE``)."""
_ROLLBACK: Final = SysFlag.TRANSACTION_ROLLBACK
_MASK: Final = SysFlag.TRANSACTION_MASK
_UNIQ_KEY: Final = PropertyName.UNIQ_KEY
_KEYS: Final = PropertyName.KEYS
_TAGS: Final = PropertyName.TAGS
_known_tags: Final[dict[tuple[str, str], int]] = {}


class KeyKind(Enum):
    """What a query asks for (upstream ``MessageConst.INDEX_KEY_TYPE`` and the like)."""

    ANY = "K"  # a unique key or one of KEYS: both are hashed alike
    UNIQUE = "U"
    TAG = "T"

    def indexed(self, key: str) -> str:
        """What is hashed for a key."""
        return tag_key(key) if self is KeyKind.TAG else key

    def matches(self, message: StoredMessage, key: str) -> bool:
        """Whether a message has the key."""
        find = message.property_map.get
        if self is KeyKind.TAG:
            return find(_TAGS) == key
        return find(_UNIQ_KEY) == key or (self is KeyKind.ANY and key in (find(_KEYS) or "").split(" "))


def tag_key(tag: str) -> str:
    """The key under which messages of a tag are found."""
    return _TAG_MARK + tag


class Keyed:
    """What the index needs of messages, as a list for each fact: most work is done on all of them at a time."""

    __slots__ = ("keys", "offsets", "stored_at_ms", "tags", "topics", "unique_keys")

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.stored_at_ms: list[int] = []
        self.topics: list[str] = []
        self.unique_keys: list[str | None] = []
        self.keys: list[str | None] = []
        self.tags: list[str | None] = []

    @property
    def count(self) -> int:
        """Messages."""
        return len(self.offsets)

    def add(self, offset: int, stored_at_ms: int, topic: str, properties: dict[str, str]) -> None:
        """One message more."""
        self.offsets.append(offset)
        self.stored_at_ms.append(stored_at_ms)
        self.topics.append(topic)
        self.unique_keys.append(properties.get(_UNIQ_KEY))
        self.keys.append(properties.get(_KEYS))
        self.tags.append(properties.get(_TAGS))

    def add_outcomes(self, outcomes: Sequence[PutOutcome]) -> None:
        """Dispatched messages."""
        for outcome in outcomes:
            if isinstance(outcome, PutResult):
                message = outcome.message
                if message.sys_flag & _MASK != _ROLLBACK:
                    self.add(outcome.commit_log_offset, outcome.stored_at_ms, outcome.topic, message.property_map)
            elif isinstance(outcome, PutRun):
                self.add_run(outcome)

    def add_run(self, outcome: PutRun) -> None:
        """All messages of a batch."""
        run, count = outcome.run, outcome.count
        self.offsets += outcome.places()
        self.stored_at_ms += [outcome.stored_at_ms] * count
        self.topics += [outcome.topic] * count
        self.unique_keys += run.unique_keys
        self.keys += [form.keys for form in run.forms]
        self.tags += [form.tag for form in run.forms]

    def part(self, start: int, end: int) -> Keyed:
        """Messages ``start`` … ``end - 1``."""
        part = Keyed()
        part.offsets = self.offsets[start:end]
        part.stored_at_ms = self.stored_at_ms[start:end]
        part.topics = self.topics[start:end]
        part.unique_keys = self.unique_keys[start:end]
        part.keys = self.keys[start:end]
        part.tags = self.tags[start:end]
        return part


def keyed_messages(messages: Sequence[StoredMessage]) -> Keyed:
    """What the index needs of messages read from the log."""
    keyed = Keyed()
    for message in messages:
        if message.sys_flag & _MASK != _ROLLBACK:
            keyed.add(message.commit_log_offset, message.stored_at_ms, message.topic, message.property_map)
    return keyed


class IndexEntries(NamedTuple):
    """Entries as three lists of the same length: hashes, commit log offsets, store times in ms."""

    hashes: list[int]
    offsets: list[int]
    stored_at_ms: list[int]

    def without(self, is_known: Callable[[int, int], bool]) -> IndexEntries:
        """Only the entries, given by hash and offset, that are not known."""
        entries = zip(self.hashes, self.offsets, self.stored_at_ms, strict=True)
        kept = [entry for entry in entries if not is_known(entry[0], entry[1])]
        return IndexEntries([entry[0] for entry in kept], [entry[1] for entry in kept], [entry[2] for entry in kept])

    def part(self, start: int, end: int) -> IndexEntries:
        """Entries ``start`` … ``end - 1``."""
        return IndexEntries(self.hashes[start:end], self.offsets[start:end], self.stored_at_ms[start:end])


def key_entries(keyed: Keyed) -> IndexEntries:
    """The entries of unique keys and KEYS, in the order of their messages."""
    if not any(keyed.keys):  # as stock producers send without KEYS
        topics, unique_keys, offsets, stored_at_ms = _those_with(keyed.unique_keys, keyed)
        return IndexEntries(index_key_hashes(topics, unique_keys), offsets, stored_at_ms)
    return _key_and_word_entries(keyed)


def _key_and_word_entries(keyed: Keyed) -> IndexEntries:
    topics: list[str] = []
    keys: list[str] = []
    entries = IndexEntries([], [], [])
    for offset, stored_at_ms, topic, unique_key, words in zip(
        keyed.offsets, keyed.stored_at_ms, keyed.topics, keyed.unique_keys, keyed.keys, strict=True
    ):
        own = [unique_key] if unique_key else []
        if words:
            own += filter(None, words.split(" "))
        for key in own:
            topics.append(topic)
            keys.append(key)
            entries.offsets.append(offset)
            entries.stored_at_ms.append(stored_at_ms)
    entries.hashes.extend(index_key_hashes(topics, keys))
    return entries


def tag_entries(keyed: Keyed) -> IndexEntries:
    """The entries of tags, in the order of their messages."""
    if not any(keyed.tags):
        return IndexEntries([], [], [])
    topics, tags, offsets, stored_at_ms = _those_with(keyed.tags, keyed)
    count = len(topics)
    if tags.count(tags[0]) == topics.count(topics[0]) == count:
        hashes = _tag_hashes([(topics[0], tags[0])]) * count
    else:
        hashes = _tag_hashes(list(zip(topics, tags, strict=True)))
    return IndexEntries(hashes, offsets, stored_at_ms)


def _those_with(keys: list[str | None], keyed: Keyed) -> tuple[list[str], list[str], list[int], list[int]]:
    """Topics, keys, offsets and store times of the messages that have a key of some kind."""
    if all(keys):
        return keyed.topics, cast("list[str]", keys), keyed.offsets, keyed.stored_at_ms
    topics, offsets = list(compress(keyed.topics, keys)), list(compress(keyed.offsets, keys))
    return topics, list(filter(None, keys)), offsets, list(compress(keyed.stored_at_ms, keys))


def _tag_hashes(tagged: list[tuple[str, str]]) -> list[int]:
    hashes = list(map(_known_tags.get, tagged))
    known = [hashed for hashed in hashes if hashed is not None]
    return known if len(known) == len(hashes) else [_tag_hash(topic, tag) for topic, tag in tagged]


def _tag_hash(topic: str, tag: str) -> int:
    if len(_known_tags) >= MAX_KNOWN_TAGS:
        _known_tags.clear()
    hashed = _known_tags[topic, tag] = index_key_hash(topic, tag_key(tag))
    return hashed
