"""The options of the source and of the sink: names, defaults, limits, and options that exclude each other.

Names are those of Spark's Kafka source where the meaning is the same. Names of the old connector are accepted too.
Spark hands options over with names in lower case. An unknown option is an error: misspelt options that were silently
ignored have cost people hours.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar

from gateway.client.connect.credentials import Credentials, read_credentials
from gateway.client.connect.settings import ClientSettings, TlsSettings
from gateway.client.errors import ConfigurationError
from gateway.client.message_queue import MessageQueue
from gateway.spark.asking.cluster import Access
from gateway.spark.errors import OptionRefused
from gateway.spark.offsets import EARLIEST, LATEST, QueueNumbers, parse_assignment, parse_offsets
from gateway.spark.spelling import did_you_mean
from wire.errors import BodyError
from wire.message.tags import TagExpression, parse_tag_expression

T = TypeVar("T")

_COMMON: Final = (
    "nameServer", "accessKey", "secretKey", "securityToken", "credentialsFile", "useTLS", "tls.caFile", "tls.certFile",
    "tls.keyFile", "tls.keyPassword", "tls.verify", "tls.checkHostName", "rocketmq.client.connectTimeout",
    "rocketmq.client.requestTimeout", "rocketmq.client.addressMap", "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)  # fmt: skip
_SOURCE: Final = (
    "subscribe", "subscribePattern", "assign", "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy", "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp",
    "maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions",
    "maxRecordsPerPartition", "failOnDataLoss", "subExpression", "expressionType", "pushFilters", "propertiesFormat",
    "groupIdPrefix", "consumerGroup", "commitOffsetsToBroker", "pullBatchSize", "pullTimeoutMs", "reconnectTimeoutMs",
    "minPollInterval", "mode", "checkBodies", "allowSystemTopics", "storePath", "requireBrokers",
)  # fmt: skip
_SINK: Final = (
    "topic", "producerGroup", "sendTimeoutMs", "batchBytes", "maxInFlight", "acceptFlushTimeout", "deliveryMode",
    "reconnectTimeoutMs",
)  # fmt: skip
_SPARKS_OWN: Final = frozenset(
    ("checkpointlocation", "queryname", "asyncprogresstrackingenabled", "asyncprogresstrackingcheckpointintervalms")
)
"""Options of Spark that reach a sink as if they were the sink's own."""
_SOURCE_ALIASES: Final = {
    "namesrvaddr": "nameServer",
    "topic": "subscribe",
    "filterexpression": "subExpression",
}
_SINK_ALIASES: Final = {"namesrvaddr": "nameServer"}
_OF_TABLE: Final = "option."
"""The prefix that Spark puts before the option names of CREATE TABLE."""
_STREAM_ONLY: Final = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_BATCH_ONLY: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")

_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?) *(ms|s|m|h|d)", re.IGNORECASE)
_GROUP_PREFIX: Final = "spark-rocketmq"
_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]{1,127}")
MOST_OFFSETS: Final = 2**53
"""The upper limit of counts: JSON readers that have only doubles read larger numbers inexactly."""
_LAST_MS: Final = 2**63 - 1
"""The latest time that a broker can be asked about, epoch milliseconds."""


class Edge(Enum):
    """One of the two ends of every queue."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The place where reading begins or ends.

    One of ``edge``, ``offsets``, ``timestamp_ms`` and ``timestamps_ms`` is given.

    :param timestamp_ms: one time for all queues, epoch milliseconds.
    :param timestamps_ms: a time for each queue.
    :param or_latest: whether a queue without messages of that time or later begins at its end; otherwise such a queue
        is an error.
    """

    edge: Edge | None = None
    offsets: QueueNumbers | None = None
    timestamp_ms: int | None = None
    timestamps_ms: QueueNumbers | None = None
    or_latest: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The checked options of a read, which travel to the workers. Durations are seconds, sizes bytes."""

    access: Access
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignment: tuple[MessageQueue, ...] = ()
    start: Bound
    end: Bound
    max_offsets: int | None = None
    max_bytes: int | None = None
    min_offsets: int | None = None
    max_delay_s: float = 900.0
    min_partitions: int | None = None
    max_records: int | None = None
    fail_on_data_loss: bool = True
    expression: str = "*"
    expression_type: str = "TAG"
    push_filters: bool = False
    json_properties: bool = False
    group: str = _GROUP_PREFIX
    commit_to_broker: bool = False
    pull_count: int | None = None
    pull_timeout_s: float = 3.0
    reconnect_s: float = 30.0
    poll_s: float = 0.2
    fails_on_bad_bodies: bool = True
    check_bodies: bool | None = None
    """True if bodies are compared with their checksums; None: only if nobody has compared them before."""
    allow_system_topics: bool = False
    store_paths: tuple[tuple[str, str], ...] = ()
    required_brokers: tuple[str, ...] | None = None
    """The brokers that must have queues when a read is planned.

    Empty: any brokers will do. None: the option is not given.
    """

    def store_path(self, broker_name: str) -> str | None:
        """Return the directory of a broker's store; None if its files are not read."""
        paths = dict(self.store_paths)
        return paths.get(broker_name, paths.get(""))

    @property
    def is_filtered(self) -> bool:
        """True if the broker leaves messages out."""
        return self.expression_type != "TAG" or not self.tag_expression.match_all

    @property
    def tag_expression(self) -> TagExpression:
        """The wanted tags; all tags with SQL92."""
        return parse_tag_expression(self.expression if self.expression_type == "TAG" else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The checked options of a write."""

    access: Access
    topic: str | None = None
    group: str = "spark-rocketmq-producer"
    send_timeout_s: float = 3.0
    reconnect_s: float = 30.0
    batch_bytes: int = 262_144
    max_in_flight: int = 8
    accept_flush_timeout: bool = False
    checkpoint: str | None = None
    """The place of the decisions: given if messages are sent as transactions, a whole batch at once."""

    @property
    def is_transactional(self) -> bool:
        """True if messages stay half messages until their whole batch is stored."""
        return self.checkpoint is not None


def check_names(options: Mapping[str, str]) -> None:
    """Refuse options that neither the source nor the sink knows.

    :raises OptionRefused: an option is unknown, or Spark did not hand over the options (CREATE TABLE).
    """
    if not options or any(name.lower().startswith(_OF_TABLE) for name in options):
        raise OptionRefused(
            "Spark does not hand the options of CREATE TABLE to a source in Python. Use CREATE TEMPORARY VIEW name "
            "USING rocketmq OPTIONS (nameServer '…', topic '…') for SELECT and INSERT, or spark.read and df.write"
        )
    _canonical(options, (*_COMMON, *_SOURCE, *_SINK), {**_SOURCE_ALIASES, **_SINK_ALIASES, "topic": "topic"})


def read_options(options: Mapping[str, str], *, is_stream: bool) -> ReadOptions:
    """Return the options of a batch or a stream.

    :raises OptionRefused: an option is unknown or cannot work, or two options exclude each other.
    """
    given = _Given(_canonical(options, (*_COMMON, *_SOURCE), _SOURCE_ALIASES))
    misplaced = [name for name in _BATCH_ONLY if is_stream and name in given]
    if misplaced:
        raise OptionRefused(f"{misplaced[0]} is for batch queries: a stream has no end")
    expression_type = given.choice("expressionType", {"tag": "TAG", "sql92": "SQL92"}, "tag")
    expression = given.text("subExpression", "*")
    if expression_type == "TAG":
        try:
            parse_tag_expression(expression)
        except BodyError as error:
            raise OptionRefused(f"subExpression is {expression!r}, which is no tag expression: {error}") from error
    commits = given.flag("commitOffsetsToBroker", False)
    if commits and "consumerGroup" not in given:
        raise OptionRefused("commitOffsetsToBroker=true needs consumerGroup: the group whose progress is shown")
    return ReadOptions(
        access=_access(given),
        **_subscription(given),
        start=_start(given, is_stream=is_stream),
        end=_end(given),
        max_offsets=given.count("maxOffsetsPerTrigger"),
        max_bytes=given.count("maxBytesPerTrigger"),
        min_offsets=given.count("minOffsetsPerTrigger"),
        max_delay_s=given.duration_s("maxTriggerDelay", 900.0),
        min_partitions=given.count("minPartitions"),
        max_records=given.count("maxRecordsPerPartition"),
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        expression=expression,
        expression_type=expression_type,
        push_filters=given.flag("pushFilters", False),
        json_properties=wants_json_properties(options),
        group=given.get("consumerGroup") or f"{given.text('groupIdPrefix', _GROUP_PREFIX)}-{uuid.uuid4().hex[:12]}",
        commit_to_broker=commits,
        pull_count=given.count("pullBatchSize", most=65_536),
        pull_timeout_s=given.milliseconds_s("pullTimeoutMs", 3000),
        reconnect_s=given.milliseconds_s("reconnectTimeoutMs", 30_000),
        poll_s=given.duration_s("minPollInterval", 0.2),
        fails_on_bad_bodies=given.choice("mode", {"failfast": "fail", "fail": "fail", "permissive": "null"}, "fail")
        == "fail",
        check_bodies=given.choice("checkBodies", {"auto": None, "true": True, "false": False}, "auto"),
        allow_system_topics=given.flag("allowSystemTopics", False),
        store_paths=_store_paths(given, expression_type),
        required_brokers=_required_brokers(given),
    )


def _required_brokers(given: _Given) -> tuple[str, ...] | None:
    """Return the required brokers: an empty tuple for ``*``, None without the option."""
    text = given.get("requireBrokers")
    if text is None:
        return None
    return () if text == "*" else tuple(filter(None, map(str.strip, text.split(","))))


def wants_json_properties(options: Mapping[str, str]) -> bool:
    """Return whether ``properties`` is a column of JSON texts. The schema depends on no other option.

    :raises OptionRefused: ``propertiesFormat`` is neither ``map`` nor ``json``.
    """
    by_lower = {name.lower(): value for name, value in options.items()}
    given = _Given({"propertiesFormat": by_lower.get("propertiesformat", "")})
    return given.choice("propertiesFormat", {"map": False, "json": True}, "map")


def ignored_options(options: Mapping[str, str]) -> list[str]:
    """Return the options that have no effect in a batch query. Spark's Kafka source warns of its own ones too."""
    return [name for name in _STREAM_ONLY if name.lower() in {key.lower() for key in options}]


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Return the options of a write.

    :raises OptionRefused: an option is unknown or cannot work.
    """
    given = _Given(_canonical(options, (*_COMMON, *_SINK), _SINK_ALIASES))
    topic = given.get("topic")
    if topic is not None and _NAME.fullmatch(topic) is None:
        raise OptionRefused(f"topic is {topic!r}: a name has 1 to 127 letters, digits and characters of %|_-")
    is_transactional = given.choice("deliveryMode", {"at-least-once": False, "transactional": True}, "at-least-once")
    checkpoint = {name.lower(): value for name, value in options.items()}.get("checkpointlocation")
    if is_transactional and not checkpoint:
        raise OptionRefused(
            "deliveryMode=transactional needs the option checkpointLocation: there is written which messages count"
        )
    return WriteOptions(
        access=_access(given),
        topic=topic,
        group=given.text("producerGroup", "spark-rocketmq-producer"),
        send_timeout_s=given.milliseconds_s("sendTimeoutMs", 3000),
        reconnect_s=given.milliseconds_s("reconnectTimeoutMs", 30_000),
        batch_bytes=given.count("batchBytes", most=4_000_000) or 262_144,
        max_in_flight=given.count("maxInFlight", most=256) or (64 if is_transactional else 8),
        accept_flush_timeout=given.flag("acceptFlushTimeout", False),
        checkpoint=checkpoint if is_transactional else None,
    )


class _Given:
    """The given options by their real names, with a reader for each kind of value."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def get(self, name: str) -> str | None:
        value = self._values.get(name)
        return None if value is None or not value.strip() else value.strip()

    def text(self, name: str, default: str) -> str:
        return self.get(name) or default

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, {"true": True, "false": False}, str(default).lower())

    def choice(self, name: str, choices: Mapping[str, T], default: str) -> T:
        text = self.text(name, default)
        if text.lower() not in choices:
            raise OptionRefused(f"{name} is {text!r}; it must be one of {', '.join(choices)}")
        return choices[text.lower()]

    def count(self, name: str, *, most: int = MOST_OFFSETS) -> int | None:
        text = self.get(name)
        if text is None:
            return None
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise OptionRefused(f"{name} is {text!r}; it must be a whole number from 1 to {most}")
        return int(text)

    def milliseconds_s(self, name: str, default_ms: int) -> float:
        return (self.count(name, most=86_400_000) or default_ms) / 1000

    def duration_s(self, name: str, default_s: float) -> float:
        text = self.get(name)
        if text is None:
            return default_s
        match = _DURATION.fullmatch(text if not text.isdecimal() else f"{text}ms")
        if match is None:
            raise OptionRefused(f"{name} is {text!r}; it must be a duration like 200ms, 10s or 15m")
        return float(match[1]) * _UNITS_S[match[2].lower()]

    def json(self, name: str) -> Any:
        text = self.get(name)
        try:
            return None if text is None else json.loads(text)
        except json.JSONDecodeError as error:
            raise OptionRefused(f"{name} is not JSON: {error}") from error


def _canonical(options: Mapping[str, str], known: tuple[str, ...], aliases: Mapping[str, str]) -> dict[str, str]:
    """Return the options under their real names, without options that belong to Spark itself.

    :raises OptionRefused: an option is unknown, or is given under two names.
    """
    by_lower = {name.lower(): name for name in known} | dict(aliases)
    found: dict[str, str] = {}
    for name, value in options.items():
        real = by_lower.get(name.lower())
        if real is None and name.lower() in _SPARKS_OWN:
            continue
        if real is None:
            raise OptionRefused(f"unknown option {name!r}{_hint(name, known)}")
        if real in found:
            raise OptionRefused(f"{real} is given twice: {name!r} is another name of it")
        found[real] = value
    return found


def _hint(name: str, known: tuple[str, ...]) -> str:
    """Return advice about an unknown option."""
    if name.lower() == "path":  # load("orders"), save("orders")
        return "; the topic is said by the option topic"
    others = {other.lower() for other in (*_SOURCE, *_SINK)} - {other.lower() for other in known}
    if name.lower() in others:
        return f": it is for {'writing' if 'subscribe' in known else 'reading; the option topic says where to write'}"
    return did_you_mean(name, known)


def _access(given: _Given) -> Access:
    name_server = given.get("nameServer")
    if name_server is None:
        raise OptionRefused("nameServer is required: the addresses of the name servers, like 'host:9876;other:9876'")
    address_map = given.json("rocketmq.client.addressMap") or {}
    if not isinstance(address_map, dict):
        raise OptionRefused('rocketmq.client.addressMap takes JSON like {"172.17.0.2:10911":"localhost:10911"}')
    try:
        settings = ClientSettings(namesrv=name_server, address_map=address_map)
    except ConfigurationError as error:
        name = "nameServer" if error.key == "namesrv" else "rocketmq.client.addressMap"
        raise OptionRefused(f"{name} is {error.value!r}; it must be {error.limit}") from error
    return Access(
        name_servers=settings.name_servers,
        connect_timeout_s=given.duration_s("rocketmq.client.connectTimeout", 3.0),
        request_timeout_s=given.duration_s("rocketmq.client.requestTimeout", 3.0),
        tries=given.count("fetchOffset.numRetries", most=1000) or 3,
        retry_s=given.milliseconds_s("fetchOffset.retryIntervalMs", 10),
        keys=_keys(given),
        tls=_tls(given),
        address_map=tuple(sorted(address_map.items())),
    )


def _keys(given: _Given) -> Credentials | None:
    """Return the keys of the options, or of the driver's file, so that workers need no file."""
    access_key, secret_key, file = (given.get(name) for name in ("accessKey", "secretKey", "credentialsFile"))
    if (access_key is None) != (secret_key is None):
        raise OptionRefused("accessKey and secretKey belong together: give both or neither")
    if access_key is not None and secret_key is not None:
        if file is not None:
            raise OptionRefused("credentialsFile and accessKey are both given: keep one of them")
        return Credentials(access_key, secret_key, given.get("securityToken"))
    if file is None:
        return None
    try:
        return read_credentials(file)
    except ConfigurationError as error:
        raise OptionRefused(f"credentialsFile is {error.value!r}; it must be {error.limit}") from error


def _tls(given: _Given) -> TlsSettings | None:
    if not given.flag("useTLS", False):
        return None
    return TlsSettings(
        ca_file=given.get("tls.caFile"),
        cert_file=given.get("tls.certFile"),
        key_file=given.get("tls.keyFile"),
        key_password=given.get("tls.keyPassword"),
        verify=given.flag("tls.verify", True),
        check_host_name=given.flag("tls.checkHostName", False),
    )


def _subscription(given: _Given) -> dict[str, Any]:
    ways = [name for name in ("subscribe", "subscribePattern", "assign") if given.get(name) is not None]
    if len(ways) != 1:
        said = " and ".join(ways) + " are given" if ways else "none is given"
        raise OptionRefused(f"exactly one of subscribe, subscribePattern and assign says what to read: {said}")
    text = given.text(ways[0], "")
    if ways[0] == "assign":
        return {"assignment": parse_assignment("assign", text)}
    if ways[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise OptionRefused(f"subscribePattern is {text!r}, which is no regular expression: {error}") from error
        return {"pattern": text}
    topics = sorted({topic.strip() for topic in text.split(",") if topic.strip()})
    for topic in topics:
        if _NAME.fullmatch(topic) is None:
            raise OptionRefused(
                f"subscribe names {topic!r}: a topic has 1 to 127 letters, digits and characters of %|_-, "
                f"and commas separate several"
            )
    if not topics:
        raise OptionRefused("subscribe names no topic")
    return {"topics": tuple(topics)}


def _store_paths(given: _Given, expression_type: str) -> tuple[tuple[str, str], ...]:
    """Return store directories by broker name; a directory for all brokers has the empty name."""
    text = given.get("storePath")
    if text is None:
        return ()
    if expression_type != "TAG":
        raise OptionRefused("storePath and expressionType=SQL92 do not go together: brokers alone evaluate SQL92")
    if not text.startswith("{"):
        return (("", text),)
    paths = given.json("storePath")
    if not isinstance(paths, dict) or not all(isinstance(path, str) and path for path in paths.values()):
        raise OptionRefused('storePath takes a directory, or JSON like {"broker-a":"/data/broker-a"}')
    return tuple(sorted(paths.items()))


def _start(given: _Given, *, is_stream: bool) -> Bound:
    bound = _bound_by_time(given, "starting")
    text = given.text("startingOffsets", "latest" if is_stream else "earliest")
    if bound is not None:
        return bound
    if text.lower() == "latest" and not is_stream:
        raise OptionRefused("startingOffsets=latest is for streams: a batch that begins at the end has nothing to read")
    bound = _bound_by_offsets("startingOffsets", text)
    latest = [queue for queue, offset in (bound.offsets or {}).items() if offset == LATEST]
    if latest and not is_stream:
        raise OptionRefused(f"startingOffsets has -1 (latest) for {latest[0]}: that is for streams")
    return bound


def _end(given: _Given) -> Bound:
    bound = _bound_by_time(given, "ending")
    if bound is not None:
        return bound
    text = given.text("endingOffsets", "latest")
    if text.lower() == "earliest":
        raise OptionRefused("endingOffsets=earliest leaves nothing to read; it takes 'latest' or JSON")
    bound = _bound_by_offsets("endingOffsets", text)
    earliest = [queue for queue, offset in (bound.offsets or {}).items() if offset == EARLIEST]
    if earliest:
        raise OptionRefused(f"endingOffsets has -2 (earliest) for {earliest[0]}: that leaves nothing to read")
    return bound


def _bound_by_offsets(name: str, text: str) -> Bound:
    edges: dict[str, Edge] = {edge.value: edge for edge in Edge}
    if text.lower() in edges:
        return Bound(edge=edges[text.lower()])
    if not text.startswith("{"):
        raise OptionRefused(f"{name} is {text!r}; it takes 'earliest', 'latest' or JSON of offsets")
    return Bound(offsets=parse_offsets(name, text))


def _bound_by_time(given: _Given, which: str) -> Bound | None:
    """Return the bound by one time for all queues or by a time for each queue.

    The one time takes precedence, as in Spark's Kafka source.
    """
    or_latest = True
    if which == "starting":
        or_latest = given.choice("startingOffsetsByTimestampStrategy", {"error": False, "latest": True}, "error")
    one, each = given.get(f"{which}Timestamp"), given.get(f"{which}OffsetsByTimestamp")
    if one is not None:
        if not one.isdecimal() or int(one) > _LAST_MS:
            raise OptionRefused(f"{which}Timestamp is {one!r}; it must be milliseconds since 1970")
        return Bound(timestamp_ms=int(one), or_latest=or_latest)
    if each is not None:
        name = f"{which}OffsetsByTimestamp"
        return Bound(timestamps_ms=parse_offsets(name, each, least=0), or_latest=or_latest)
    return None
