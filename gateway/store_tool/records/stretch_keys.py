"""What a stretch of the commit log asks of the key index: an entry for each key and each tag of its messages.

Entries are columns of numbers: hashes, commit log offsets, store times. ``index_check`` compares them with the files.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain, compress, repeat
from typing import Any

from gateway.store.index.index_entries import tag_key
from gateway.store_tool.records.key_hashes import index_key_hashes, index_key_hashes_alike
from gateway.store_tool.records.property_columns import PAIR_END
from gateway.store_tool.records.queue_runs import MAX_CACHED_TAGS
from wire.message.java_hash import index_key_hash


class StretchKeys:
    """The entries that a stretch asks for: of keys, and of tags. A plain class: columns that grow in a loop.

    Call ``finish`` before you read the columns.
    """

    __slots__ = (
        *("hashes", "offsets", "tag_hashes", "tag_offsets", "tag_times", "times"),
        *("_tag_hashes", "_texts", "_topics"),
    )

    def __init__(self) -> None:
        self.hashes, self.offsets, self.times = array("i"), array("q"), array("q")
        self.tag_hashes, self.tag_offsets, self.tag_times = array("i"), array("q"), array("q")
        self._topics: list[str] = []
        self._texts: list[str] = []
        self._tag_hashes: dict[tuple[str, bytes], int] = {}

    def finish(self) -> StretchKeys:
        """Hash what was added key by key, so that hashes stay in the order of offsets; the entries."""
        if self._texts:
            self.hashes.extend(index_key_hashes(self._topics, self._texts))
            self._topics, self._texts = [], []
        return self

    def add_key(self, topic: str, offset: int, time: int, key: str) -> None:
        """Add one key."""
        self._topics.append(topic)
        self._texts.append(key)
        self.offsets.append(offset)
        self.times.append(time)

    def add_alike(
        self, topics: Sequence[str], offsets: array[int], times: array[int], texts: Sequence[bytes], *, several: bool
    ) -> None:
        """As ``add_texts``, of texts that have one length; ``topics`` may be one, which is then that of all."""
        joined = b"".join(texts)
        if joined.isascii() and not (several and b" " in joined):
            self.finish()
            self.hashes += index_key_hashes_alike(topics, joined, len(texts[0]), shared_chars=_shared(texts))
            self.offsets += offsets
            self.times += times
        else:
            topics = topics if len(topics) == len(texts) else [topics[0]] * len(texts)
            self.add_texts((topics, offsets, times), texts, several=several)

    def add_texts(self, rows: Sequence[Sequence[Any]], texts: Sequence[bytes], *, several: bool) -> None:
        """Add keys.

        :param rows: topics, offsets and times; ``texts`` their keys.
        :param several: a text may be several keys.
        """
        # No value holds the byte that ends it.
        words = str(PAIR_END.join(texts), "utf-8", "replace").split("\x02")
        if several and " " in "".join(words):
            self._add_split(rows, [text.split(" ") for text in words])
        else:
            self.finish()
            self.hashes.extend(index_key_hashes(rows[0], words))
            self.offsets.extend(rows[1])
            self.times.extend(rows[2])

    def _add_split(self, rows: Sequence[Sequence[Any]], keys: Sequence[Sequence[str]]) -> None:
        """Add several keys of each message; empty ones are none."""
        counts, flat = list(map(len, keys)), list(chain.from_iterable(keys))
        topics, offsets, times = (list(chain.from_iterable(map(repeat, column, counts))) for column in rows)
        if "" in flat:
            topics, offsets, times = (list(compress(column, flat)) for column in (topics, offsets, times))
            flat = list(filter(None, flat))
        self._topics += topics
        self._texts += flat
        self.offsets.extend(offsets)
        self.times.extend(times)

    def add_tag(self, topic: str, offsets: array[int], times: array[int], tag: bytes) -> None:
        """Add one tag of many messages of one topic."""
        self.tag_offsets += offsets
        self.tag_times += times
        self.tag_hashes += array("i", [self._tag_hash((topic, tag))]) * len(offsets)

    def add_tags(
        self, topics: Sequence[str], offsets: Sequence[int], times: Sequence[int], tags: Sequence[bytes]
    ) -> None:
        """Add tags, without those that are b""; ``topics`` may be one, which is then that of all."""
        if len(topics) == 1 < len(tags):
            topics = [topics[0]] * len(tags) if tags.count(tags[0]) < len(tags) else topics
        if b"" in tags:
            topics, offsets = list(compress(topics, tags)), list(compress(offsets, tags))
            times, tags = list(compress(times, tags)), list(filter(None, tags))
            if not tags:
                return
        self.tag_offsets.extend(offsets)
        self.tag_times.extend(times)
        if topics.count(topics[0]) == len(topics) and tags.count(tags[0]) == len(tags):
            self.tag_hashes += array("i", [self._tag_hash((topics[0], tags[0]))]) * len(tags)
        else:
            self.tag_hashes.extend(map(self._tag_hash, zip(topics, tags, strict=True)))

    def _tag_hash(self, name: tuple[str, bytes]) -> int:
        hashed = self._tag_hashes.get(name)
        if hashed is None:
            hashed = index_key_hash(name[0], tag_key(str(name[1], "utf-8", "replace")))
            if len(self._tag_hashes) >= MAX_CACHED_TAGS:
                self._tag_hashes.clear()
            self._tag_hashes[name] = hashed
        return hashed


def _shared(texts: Sequence[bytes]) -> int:
    """How many bytes texts of one length have in common at their begin: as many as the first and last in order."""
    pairs = zip(min(texts), max(texts), strict=True)
    return next((number for number, (one, other) in enumerate(pairs) if one != other), len(texts[0]))
