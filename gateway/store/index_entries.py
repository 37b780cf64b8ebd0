"""From messages to index entries, many at a time: which keys a message has, and their hashes.

The keys of a message are its unique key, each word of its KEYS and, as Apache RocketMQ 5.5 has it, its tag. Rolled
back messages have none, prepared ones do. (Upstream: ``IndexService.buildIndex``.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from itertools import repeat
from typing import Final, NamedTuple, TypeAlias, cast

from gateway.store.put_result import PutOutcome, PutResult, PutRun
from wire.message.flags import SysFlag
from wire.message.java_hash import index_key_hash, index_key_hashes
from wire.message.properties import PropertyName
from wire.message.record import StoredMessage

Keyed: TypeAlias = "list[tuple[int, int, str, str | None, str | None, str | None]]"
"""Commit log offset, stored at ms, topic, unique key, KEYS and tag of each message."""

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


def keyed_outcomes(outcomes: Sequence[PutOutcome]) -> Keyed:
    """What the index needs of dispatched messages."""
    keyed: Keyed = []
    for outcome in outcomes:
        if isinstance(outcome, PutResult):
            message = outcome.message
            if message.sys_flag & _MASK != _ROLLBACK:
                find = message.property_map.get
                place = outcome.commit_log_offset
                keyed.append((place, outcome.stored_at_ms, outcome.topic, find(_UNIQ_KEY), find(_KEYS), find(_TAGS)))
        elif isinstance(outcome, PutRun):
            run = outcome.run
            keyed += zip(
                outcome.places(),
                repeat(outcome.stored_at_ms),
                repeat(outcome.topic),
                run.unique_keys,
                [form.keys for form in run.forms],
                [form.tag for form in run.forms],
                strict=False,
            )
    return keyed


def keyed_messages(messages: Sequence[StoredMessage]) -> Keyed:
    """What the index needs of messages read from the log."""
    keyed: Keyed = []
    for message in messages:
        if message.sys_flag & _MASK != _ROLLBACK:
            find = message.property_map.get
            place = message.commit_log_offset
            keyed.append((place, message.stored_at_ms, message.topic, find(_UNIQ_KEY), find(_KEYS), find(_TAGS)))
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
    unique_keys = [each[3] for each in keyed]
    more = [each[4] for each in keyed]
    if all(unique_keys) and not any(more):  # as stock producers send without KEYS
        topics = [each[2] for each in keyed]
        keys = cast("list[str]", unique_keys)
        return IndexEntries(index_key_hashes(topics, keys), [each[0] for each in keyed], [each[1] for each in keyed])
    topics, keys = [], []
    entries = IndexEntries([], [], [])
    for offset, stored_at_ms, topic, unique_key, words, _ in keyed:
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
    tags = [each[5] for each in keyed]
    if not any(tags):
        return IndexEntries([], [], [])
    if not all(tags):
        keyed = [each for each, tag in zip(keyed, tags, strict=True) if tag]
        tags = list(filter(None, tags))
    count = len(keyed)
    topics = [each[2] for each in keyed]
    if tags.count(tags[0]) == topics.count(topics[0]) == count:
        hashes = _tag_hashes([(topics[0], str(tags[0]))]) * count
    else:
        hashes = _tag_hashes(list(zip(topics, cast("list[str]", tags), strict=True)))
    return IndexEntries(hashes, [each[0] for each in keyed], [each[1] for each in keyed])


def _tag_hashes(tagged: list[tuple[str, str]]) -> list[int]:
    hashes = list(map(_known_tags.get, tagged))
    known = [hashed for hashed in hashes if hashed is not None]
    return known if len(known) == len(hashes) else [_tag_hash(topic, tag) for topic, tag in tagged]


def _tag_hash(topic: str, tag: str) -> int:
    if len(_known_tags) >= MAX_KNOWN_TAGS:
        _known_tags.clear()
    hashed = _known_tags[topic, tag] = index_key_hash(topic, tag_key(tag))
    return hashed
