"""The body of REGISTER_BROKER: a broker's topics, as plain JSON or compressed.

The compressed form is one zlib stream of length-prefixed parts (int32, big-endian). The parts are: the data version as
JSON; the number of topics and each topic as ``name read write perm filterType[ attributes]``; the filter servers as
JSON; from clients of 5.0 on, the number of static-topic mappings and each mapping as JSON. The compressed form loses
``order`` and ``topicSysFlag``. (Upstream: ``RegisterBrokerBody``.)
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from wire.bodies.declare import ENTRIES_PER_STEP, JsonObject, Readable, Steps, field, finish
from wire.bodies.fastjson import build_json, parse_json
from wire.bodies.topics import DataVersion, TopicConfig, TopicQueueMapping
from wire.codes import SERVER_VERSION
from wire.errors import BodyError, LocalError

T = TypeVar("T")
MAX_INFLATED_BYTES = 33_554_432
"""The most bytes of an inflated body: 32 MiB hold 100,000 topics with names and attributes of 300 bytes."""
MAX_PARTS = 200_000
"""The most topics of a compressed body, and the most static topics: twice the limit of a broker of this gateway."""
MAPPINGS_SINCE_VERSION = 413
"""V5_0_0, the first version whose compressed form ends with the static-topic mappings."""

_COMPRESSION_LEVEL = 9
_INFLATED_PER_STEP = 1_048_576
_LOOKED_AT_BYTES = 262_145
"""The number of bytes that are inflated to estimate the size of the whole; takes a millisecond."""
_PLAIN_BYTES_PER_STEP = 65_536
_PART_BYTES_PER_STEP = 65_536
_int32 = struct.Struct(">i")


class TopicsAndMappings(JsonObject):
    """Topics with their version, and static topics (upstream ``TopicConfigAndMappingSerializeWrapper``)."""

    data_version: DataVersion = field(default_factory=DataVersion)
    topic_config_table: Mapping[str, TopicConfig] = field(default_factory=dict)
    mapping_data_version: DataVersion = field(default_factory=DataVersion)
    topic_queue_mapping_info_map: Mapping[str, TopicQueueMapping] = field(default_factory=dict)
    topic_queue_mapping_detail_map: Mapping[str, Any] = field(default_factory=dict)


class _PlainBody(JsonObject):
    topics: TopicsAndMappings = field(default_factory=TopicsAndMappings, name="topicConfigSerializeWrapper")
    filter_server_list: Sequence[str] = ()


class RegisterBrokerBody(msgspec.Struct, frozen=True):
    """The facts that a broker registers with a name server, besides the header."""

    data_version: DataVersion = field(default_factory=DataVersion)
    topic_config_table: Mapping[str, TopicConfig] = field(default_factory=dict)
    filter_server_list: Sequence[str] = ()
    topic_queue_mapping_info_map: Mapping[str, TopicQueueMapping] = field(default_factory=dict)

    @classmethod
    def parse(cls, raw: Readable, compressed: bool, version: int) -> RegisterBrokerBody:
        """Read the body of a request of this version at once; raises as ``parse_in_steps`` does."""
        return finish(cls.parse_in_steps(raw, compressed, version))

    @classmethod
    def parse_in_steps(cls, raw: Readable, compressed: bool, version: int) -> Steps[RegisterBrokerBody]:
        """Read the body of a request of this version; an empty body is a broker without topics.

        Ten thousand topics take 100 ms, a frame full of topics takes five seconds.

        :raises BodyError: the body is malformed, larger than ``MAX_INFLATED_BYTES`` when inflated, or has more topics
            than ``MAX_PARTS``.
        """
        if not raw:
            return cls()
        if compressed:
            return (yield from _parse_compressed(raw, version))
        value = parse_json(raw)
        if len(raw) > _PLAIN_BYTES_PER_STEP:
            yield
        plain = yield from _PlainBody.from_json_in_steps(value)
        return cls(
            data_version=plain.topics.data_version,
            topic_config_table=plain.topics.topic_config_table,
            filter_server_list=plain.filter_server_list,
            topic_queue_mapping_info_map=plain.topics.topic_queue_mapping_info_map,
        )

    def build(self, compressed: bool, version: int = SERVER_VERSION) -> bytes:
        """Return the body for a request that carries ``version``.

        :raises LocalError: the compressed form is asked for, and a topic's name or filter type is empty or contains a
            space.
        """
        if compressed:
            return zlib.compress(b"".join(self._parts(version)), _COMPRESSION_LEVEL)
        topics = TopicsAndMappings(
            data_version=self.data_version,
            topic_config_table=self.topic_config_table,
            topic_queue_mapping_info_map=self.topic_queue_mapping_info_map,
        )
        plain = _PlainBody(topics, self.filter_server_list)
        return build_json(plain.to_json(), java_form=True)

    def _parts(self, version: int) -> Iterable[bytes]:
        yield _prefixed(self.data_version.build())
        yield _int32.pack(len(self.topic_config_table))
        for config in self.topic_config_table.values():
            yield _prefixed(_topic_text(config).encode("utf-8", "replace"))
        yield _prefixed(build_json(list(self.filter_server_list), java_form=False))
        if version >= MAPPINGS_SINCE_VERSION:
            yield _int32.pack(len(self.topic_queue_mapping_info_map))
            for mapping in self.topic_queue_mapping_info_map.values():
                yield _prefixed(build_json(mapping.to_json(), java_form=True))


def likely_bytes(raw: Readable, compressed: bool) -> int:
    """Return how many bytes a registration probably has when it is inflated.

    The start of a compressed registration shows how well it is compressed. A short registration is inflated completely.
    """
    if not compressed:
        return len(raw)
    inflater = zlib.decompressobj()
    try:
        beginning = len(inflater.decompress(raw, _LOOKED_AT_BYTES))
    except zlib.error:
        return len(raw)
    left = len(inflater.unconsumed_tail)
    looked_at = len(raw) - left
    if inflater.eof or beginning < _LOOKED_AT_BYTES:
        return beginning
    return min(beginning * len(raw) // max(looked_at, 1) + 1, MAX_INFLATED_BYTES)


def _prefixed(part: bytes) -> bytes:
    return _int32.pack(len(part)) + part


def _topic_text(config: TopicConfig) -> str:
    words = [
        config.topic_name,
        str(config.read_queue_nums),
        str(config.write_queue_nums),
        str(config.perm),
        config.topic_filter_type,
    ]
    if any(" " in word or not word for word in words):
        raise LocalError(f"topic {config.topic_name!r} cannot be written as words")
    if config.attributes:  # left out otherwise: readers of 4.9 take exactly five words
        words.append(str(build_json(config.attributes, java_form=False), "utf-8"))
    return " ".join(words)


class _Parts:
    """A reader of the inflated parts, one by one."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    def number(self) -> int:
        if len(self._raw) - self._at < _int32.size:
            raise BodyError(f"compressed registration is cut off at byte {self._at}")
        (number,) = _int32.unpack_from(self._raw, self._at)
        if number < 0:
            raise BodyError(f"compressed registration: length {number} at byte {self._at}")
        self._at += _int32.size
        return int(number)

    def part(self) -> bytes:
        size = self.number()
        if size > len(self._raw) - self._at:
            raise BodyError(f"compressed registration: a part of {size} bytes at byte {self._at} of {len(self._raw)}")
        self._at += size
        return self._raw[self._at - size : self._at]

    def parts(self, what: str, read: Callable[[bytes], T]) -> Steps[list[T]]:
        """Read a number and then as many parts, each with ``read``."""
        count = self.number()
        if count > MAX_PARTS:
            raise BodyError(f"compressed registration: {count} {what}, the limit is {MAX_PARTS}")
        found: list[T] = []
        since = self._at
        for at in range(count):
            if (at + 1) % ENTRIES_PER_STEP == 0 or self._at - since > _PART_BYTES_PER_STEP:
                since = self._at
                yield
            found.append(read(self.part()))
        return found


def _inflate(raw: Readable) -> Steps[bytes]:
    inflater = zlib.decompressobj()
    pieces: list[bytes] = []
    size, left = 0, bytes(raw)
    try:
        while not inflater.eof:
            if pieces:
                yield
            piece = inflater.decompress(left, _INFLATED_PER_STEP)
            left = inflater.unconsumed_tail
            if not piece and not inflater.eof:
                raise BodyError("compressed registration is cut off within the zlib stream")
            size += len(piece)
            if size > MAX_INFLATED_BYTES:
                raise BodyError(f"compressed registration is larger than {MAX_INFLATED_BYTES} bytes")
            pieces.append(piece)
    except zlib.error as error:
        raise BodyError(f"compressed registration is no zlib stream: {error}") from error
    return b"".join(pieces)


def _parse_compressed(raw: Readable, version: int) -> Steps[RegisterBrokerBody]:
    inflated = yield from _inflate(raw)
    parts = _Parts(inflated)
    data_version = DataVersion.parse(parts.part())
    configs = yield from parts.parts("topics", _parse_topic)
    topics: dict[str, TopicConfig] = {}
    for at in range(0, len(configs), ENTRIES_PER_STEP):
        if at:
            yield
        topics.update((config.topic_name, config) for config in configs[at : at + ENTRIES_PER_STEP])
    filter_servers = parse_json(parts.part())
    if not isinstance(filter_servers, list) or not all(isinstance(server, str) for server in filter_servers):
        raise BodyError("compressed registration: the filter servers are no array of text")
    mappings: list[TopicQueueMapping] = []
    if version >= MAPPINGS_SINCE_VERSION:
        mappings = yield from parts.parts("static topics", TopicQueueMapping.parse)
    return RegisterBrokerBody(
        data_version=data_version,
        topic_config_table=topics,
        filter_server_list=tuple(filter_servers),
        topic_queue_mapping_info_map={mapping.topic: mapping for mapping in mappings},
    )


def _parse_topic(raw: bytes) -> TopicConfig:
    text = str(raw, "utf-8", "replace")
    words = text.split(" ", 5)
    if len(words) < 5:
        raise BodyError(f"topic text {text[:64]!r} has {len(words)} words, not 5 or 6")
    return TopicConfig.from_json(
        {
            "topicName": words[0],
            "readQueueNums": words[1],
            "writeQueueNums": words[2],
            "perm": words[3],
            "topicFilterType": words[4],
            "attributes": parse_json(words[5]) if len(words) == 6 and words[5] else None,
        }
    )
