"""The key index entries that a stretch of the commit log needs: one for each key and each tag of its messages."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from itertools import compress

from gateway.store.index.index_entries import TopicHashes
from wire.message.properties import PropertyName

_TAG_IS_NONE = bytes((1, 0))
"""A translation that swaps 0 and 1."""


class StretchKeys:
    """The entries as columns, in the order in which servers make them. ``are_tags`` has a 1 for each entry of a tag.

    A plain class, because every record uses it.
    """

    __slots__ = ("_topics", "are_tags", "hashes", "offsets", "times")

    def __init__(self) -> None:
        self.hashes, self.offsets, self.times = array("i"), array("q"), array("q")
        self.are_tags = bytearray()
        self._topics: dict[str, TopicHashes] = {}

    def add(self, topic: str, properties: Mapping[str, str], offset: int, stored_at_ms: int) -> None:
        """Add the entries that a message needs."""
        hashes = self._topics.get(topic)
        if hashes is None:
            hashes = self._topics[topic] = TopicHashes(topic)
        find = properties.get
        found = []
        if unique := find(PropertyName.UNIQ_KEY):
            found.append(hashes.of_unique_key(unique))
        if words := find(PropertyName.KEYS):
            found += [hashes.of_word(word) for word in words.split(" ") if word]
        self.are_tags += bytes(len(found))
        if tag := find(PropertyName.TAGS):
            found.append(hashes.of_tag(tag))
            self.are_tags.append(1)
        self.hashes.extend(found)
        for _ in found:
            self.offsets.append(offset)
            self.times.append(stored_at_ms)

    def without_tags(self) -> StretchKeys:
        """Return a copy without the entries of tags, which Apache RocketMQ makes since 5.5."""
        keys, wanted = StretchKeys(), self.are_tags.translate(_TAG_IS_NONE.ljust(256, b"\x00"))
        keys.hashes.extend(compress(self.hashes, wanted))
        keys.offsets.extend(compress(self.offsets, wanted))
        keys.times.extend(compress(self.times, wanted))
        keys.are_tags = bytearray(len(keys.hashes))
        return keys

    def __len__(self) -> int:
        return len(self.hashes)
