"""No parser takes much more than twice as long for twice the input, whatever a peer sends.

Filters and the tables of a name server have such tests of their own.
"""

from __future__ import annotations

import ast
import base64
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from gateway.access.plain.addresses import parse_pattern
from gateway.access.plain.document import read_document
from gateway.access.plain.parsing import Parsing
from gateway.access.plain.permissions import parse_entry, parse_word
from gateway.access.policies.access_file import parse_users
from gateway.access.policies.resources import Resource
from gateway.client import compression
from gateway.client.consume import broker_calls
from gateway.client.consume.pop.pop_handles import parse_receipt as parse_client_receipt
from gateway.delivery.pop.receipts import parse_receipt
from gateway.metadata.attributes import changed_attributes
from gateway.settings.addresses import parse_address, parse_addresses, parse_advertised, parse_networks
from gateway.settings.files.properties import parse_properties_file
from gateway.transaction.records.op_messages import parse_op
from gateway.transaction.records.property_scan import parse_head
from wire.bodies.declare import JsonObject
from wire.bodies.registration import RegisterBrokerBody
from wire.bodies.route import ordered_queues
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.disk import config_json
from wire.disk.epoch_file import EpochEntry, build_epochs, parse_epochs
from wire.disk.revive_log import AckRecord, BatchAckRecord, CheckPointRecord, GoneRecord, StateRecord
from wire.frame import build_frame, parse_frame
from wire.headers.declare import parse_bool, parse_header, parse_int, read_header
from wire.headers.name_server import PutKVConfigRequest
from wire.headers.send import SendMessageRequest
from wire.json_header import parse_ext_fields, parse_members
from wire.message.batch import MAX_BATCH_PARTS, BatchPart, build_batch, parse_batch, split_batch
from wire.message.light_queues import named_places
from wire.message.message_id import parse_offset_message_id
from wire.message.properties import parse_properties
from wire.message.recall_handle import parse_recall_handle
from wire.message.record import parse_record, parse_record_ends, parse_records, tail_start
from wire.message.tags import parse_tag_expression
from wire.proxy_header import BINARY_BEGIN, parse_proxy_header
from wire.quick.whole import whole_headers
from wire.replication.auto_switch import EPOCH, read_epochs
from wire.tests.bodies.shapes import body_classes, shapes
from wire.tests.growth import MOST_PER_DOUBLING, growth_per_doubling
from wire.tests.message.samples import record

ROOT = Path(__file__).parents[2]
Make: TypeAlias = Callable[[int], Any]


def repeated(unit: str, before: str = "", after: str = "") -> Make:
    """A text of a size."""
    return lambda size: before + unit * (size // len(unit)) + after


def numbered(template: str, before: str = "", after: str = "", between: str = ",") -> Make:
    """A text of a size whose entries have numbers."""
    width = len(template.format(4096)) + len(between)
    return lambda size: before + between.join(template.format(at) for at in range(size // width)) + after


def as_bytes(make: Make) -> Make:
    return lambda size: make(size).encode()


JSON: dict[str, Make] = {
    "deep": repeated("["),
    "deep objects": repeated('{"a":'),
    "deep, closed": lambda size: "[" * (size // 2) + "]" * (size // 2),
    "long number": repeated("1", "[", "]"),
    "long number and a letter": repeated("1", "{a:", "x}"),
    "long fraction": lambda size: "{a:" + "1" * (size // 2) + "." + "1" * (size // 2) + "x}",
    "long exponent": lambda size: "{a:1e" + "1" * size + "x}",
    "signs": repeated("-", "[", "]"),
    "long text": repeated("x", '["', '"]'),
    "long text, not closed": repeated("x", "{a:'"),
    "texts, not closed": repeated('"a', "["),
    "escapes": repeated("\\u0041", "['", "']"),
    "escaped quotes": repeated('\\"', '{0:"', '"}'),
    "backslashes": repeated("\\\\", '{0:"', '"}'),
    "surrogates": repeated("\\ud800", "['", "']"),
    "odd backslashes, not closed": repeated("\\", '["'),
    "spaces": repeated(" ", "[", ",]"),
    "commas": repeated(",", "[", "]"),
    "commas, not closed": repeated(",", "["),
    "comments": repeated("/**/", "[", "]"),
    "comments to the end of the line": repeated("//\n", "[", "]"),
    "comment, not closed": repeated("/*", "["),
    "slashes": repeated("/", "["),
    "stars": repeated("*", "[/*"),
    "numbers": repeated("1,", "[", "1]"),
    "bare words": repeated("null ", "[", "]"),
    "long word": repeated("n", "[", "]"),
    "long bare key": repeated("k", "{", ":1}"),
    "keys": numbered('"k{}":1', "{", "}"),
    "bare keys": numbered("k{}:1", "{", "}"),
    "numbers as keys": numbered("{}:1", "{", "}"),
    "numbers as keys, not closed": numbered("{}:1", "{"),
    "one key": repeated('"k":1,', "{", "}"),
    "one bare key": repeated("k:1,", "{", "}"),
    "equal hashes of small tables": lambda size: "{" + ",".join(f"{at << 44}:1" for at in range(size // 20)) + "}",
    "objects as keys": numbered('{{"a":{}}}:1', "{", "}"),
    "keys within keys": repeated("{", "{"),
    "references": numbered('{{"$ref":"$.a"}}', '{"a":{"b":1},"c":[', "]}"),
    "references to a list": lambda size: (
        '{"a":[' + "1," * (size // 4) + '1],"b":[' + '{"$ref":"$.a"},' * (size // 30) + "1]}"
    ),
    "references within each other": numbered('{{"a":{{"$ref":"$[{}]"}}}}', "[", ",{}]"),
    "reference by a long path": repeated("[0]", '{"a":{"$ref":"$', '"}}'),
    "reference by long names": repeated("\\\\.", '{"a":{"$ref":"$.', '"}}'),
    "reference by a name that is no path": repeated("x", '{"a":{"$ref":"$.', '["}}'),
    "malformed UTF-8": lambda size: b"['" + b"\xff" * size + b"']",
}

PAIRS: dict[str, Make] = {
    "pairs": numbered("k{}\x01v", between="\x02"),
    "ends of names": repeated("\x01"),
    "ends of pairs": repeated("\x02"),
    "pairs without a value": repeated("a\x01\x02"),
    "long name": repeated("a"),
    "one name": repeated("a\x01b\x02"),
}

EXT: dict[str, Make] = {
    "fields": numbered('"k{}":"v"', "{", "}"),
    "numbers": numbered('"k{}":1', "{", "}"),
    "objects": numbered('"k{}":{{}}', "{", "}"),
    "one name": repeated('"a":"b",', "{", '"a":"b"}'),
    "long value": repeated("x", '{"value":"', '"}'),
    "escapes": repeated("\\u0001", '{"value":"', '"}'),
    "long number": repeated("1", '{"value":', "}"),
    "deep": repeated("[", '{"value":'),
    "lists": repeated("[],", '{"value":[', "[]]}"),
    "malformed UTF-8": lambda size: b'{"value":"' + b"\xff" * size + b'"}',
}


ENTRY = '{{"resource":"Topic:t{}","actions":["Pub"],"decision":"Allow"}}'
USERS: dict[str, Make] = {
    name: as_bytes(make)
    for name, make in {
        "users": numbered('{{"username":"u{}","password":"secret-1"}}', '{"users":[', "]}"),
        "users, the last without a name": numbered('{{"username":"u{}","password":"secret-1"}}', '{"users":[', ",{}]}"),
        "users, the last twice": numbered(
            '{{"username":"u{}","password":"secret-1"}}', '{"users":[', ',{"username":"u0","password":"secret-1"}]}'
        ),
        "entries": numbered(
            ENTRY, '{"users":[{"username":"u","password":"secret-1","policies":[{"entries":[', "]}]}]}"
        ),
        "entries, the last without a decision": numbered(
            ENTRY,
            '{"users":[{"username":"u","password":"secret-1","policies":[{"entries":[',
            ',{"resource":"*","actions":["Pub"],"decision":"maybe"}]}]}]}',
        ),
        "lines": repeated("\n", '{"users":[', "x"),
        "deep": repeated("[", '{"users":'),
        "long name": repeated("u", '{"users":[{"username":"', '","password":"secret-1"}]}'),
    }.items()
}


def json_header(make: Make, code: int = 100) -> Make:
    """A frame, after its length, with these ext fields."""

    def frame(size: int) -> bytes:
        fields = make(size)
        fields = fields if isinstance(fields, bytes) else fields.encode()
        header = b'{"code":%d,"extFields":' % code + fields + b"}"
        return len(header).to_bytes(4, "big") + header

    return frame


def binary_frame(size: int) -> bytes:
    fields = {f"k{at}": "v" for at in range(size // 12)}
    return build_frame(RemotingCommand(100, ext_fields=fields, serialize_type=1))[4:]


def receive_in_pieces(frame: bytes) -> None:
    """Let a frame arrive in a thousand pieces at least, each of at most 64 bytes."""
    connection = Connection()
    for at in range(0, len(frame), 64):
        connection.receive_data(frame[at : at + 64])


def compressed_topics(size: int) -> bytes:
    text = b"t 8 8 6 SINGLE_TAG {a:1}"
    count = min(size // len(text), 50_000)
    parts = b"\0\0\0\2{}" + count.to_bytes(4, "big") + (len(text).to_bytes(4, "big") + text) * count + b"\0\0\0\2[]"
    return zlib.compress(parts)


def batch(size: int) -> bytes:
    return build_batch([BatchPart(0, b"b", b"a\x01b\x02")] * min(size // 28, MAX_BATCH_PARTS))


def send_fields(make: Make, size: int) -> dict[str, str]:
    return {"topic": make(size), "queueId": make(size)}


def read_kv(frame: bytes) -> None:
    read_header(PutKVConfigRequest, parse_frame(frame, 0, len(frame)))


TEXTS: dict[str, Make] = {
    "one letter": repeated("a"),
    "digits": repeated("1"),
    "digits and a letter": repeated("1", after="x"),
    "spaces": repeated(" "),
    "words": repeated("1 "),
    "bars": repeated("a||"),
    "colons": repeated("a:"),
    "semicolons": repeated("a:1;"),
    "commas": repeated("+a=b,"),
    "equals": repeated("="),
}
BYTES = {name: as_bytes(make) for name, make in TEXTS.items()}
PLACES: dict[str, Make] = {
    "places": lambda size: {
        "INNER_MULTI_DISPATCH": "%LMQ%a," * (size // 7),
        "INNER_MULTI_QUEUE_OFFSET": "1," * (size // 7),
    }
}
RECORDS: dict[str, Make] = {
    "long body": lambda size: record(body=bytes(size)),
    "pairs": lambda size: record(properties=b"a\x01b\x02" * (min(size, 32_000) // 4)),
}

EXT_BYTES = {name: as_bytes(make) for name, make in EXT.items() if "UTF" not in name}
FRAMES = {name: json_header(make) for name, make in EXT.items()}
EPOCHS: dict[str, Make] = {
    "epochs": lambda size: build_epochs(EpochEntry(at, at) for at in range(size // 12)),
    "the last one twice": lambda size: build_epochs(EpochEntry(at % (size // 12), at) for at in range(size // 12 + 1)),
    "lines": lambda size: b"\n" * size,
    "long number": lambda size: b"1\n0\n" + b"1" * size + b"\n",
    "hyphens": lambda size: b"1\n0\n" + b"-" * size + b"\n",
}
QUEUE = '"brokerName":"b","queueId":{},"topic":"t"'

Covered: TypeAlias = "dict[str, tuple[Callable[[Any], object], dict[str, Make]]]"
YAML: dict[str, Make] = {
    **TEXTS,
    "accounts": numbered("- {{accessKey: account{}, secretKey: '12345678'}}\n", "accounts:\n", between=""),
    "entries": repeated("  - a=PUB\n", "accounts:\n- accessKey: account1\n  secretKey: '12345678'\n  topicPerms:\n"),
    "patterns": repeated("- 10.1.*.*\n", "globalWhiteRemoteAddresses:\n"),
    "patterns in brackets": repeated("10.1.*.*, ", "globalWhiteRemoteAddresses: [", "]"),
    "keys": numbered("k{}: v\n", between=""),
    "keys in braces": numbered("k{}: v", "{", "}"),
    "names": numbered("- &n{} v\n", "accounts:\n", between=""),
    "repeated names": repeated("*n, ", "{globalWhiteRemoteAddresses: [&n 10.1.2.3, ", "]}"),
    "comments": repeated("# a\n"),
    "lines": repeated("\n"),
    "spaces": repeated(" "),
    "tabs": repeated("\t", "a: "),
    "brackets": repeated("["),
    "braces": repeated("{"),
    "hyphens": repeated("- "),
    "question marks": repeated("? "),
    "colons": repeated("a: "),
    "documents": repeated("---\n"),
    "directives": repeated("%TAG ! a\n"),
    "tags": repeated("- !a b\n", "accounts:\n"),
    "text over lines": repeated("a\n ", "accounts: "),
    "quoted text over lines": repeated("a\n\n ", "accounts: '"),
    "escapes": repeated("\\x41", 'accounts: "', '"'),
    "folded lines": repeated("  a\n", "accounts: >\n"),
    "digits": repeated("1", "accounts: "),
    "digits with colons": repeated("1:", "accounts: ", "1"),
    "commas": repeated(",", "accounts: [", "]"),
}

COVERED: Covered = {
    "wire.replication.auto_switch.read_epochs": (
        read_epochs,
        {"epochs": lambda size: b"".join(EPOCH.pack(at, at) for at in range(size // EPOCH.size))},
    ),
    "wire.bodies.fastjson.parse_json": (config_json.parse_config, JSON),
    "wire.bodies.registration.RegisterBrokerBody.parse": (
        lambda raw: RegisterBrokerBody.parse(raw, True, 400),
        {"topics": compressed_topics, "zeros": lambda size: zlib.compress(bytes(64 * size))},
    ),
    "wire.bodies.route.ordered_queues": (ordered_queues, TEXTS),
    "wire.connection.Connection.receive_data": (
        receive_in_pieces,
        {"pieces": lambda size: build_frame(RemotingCommand(1, body=bytes(size)))},
    ),
    "wire.disk.epoch_file.parse_epochs": (parse_epochs, {**BYTES, **EPOCHS}),
    "wire.disk.revive_log.ReviveRecord.parse": (AckRecord.parse, BYTES),
    "wire.disk.revive_log.BatchAckRecord.parse": (BatchAckRecord.parse, BYTES),
    "wire.disk.revive_log.CheckPointRecord.parse": (CheckPointRecord.parse, BYTES),
    "wire.disk.revive_log.GoneRecord.parse": (GoneRecord.parse, BYTES),
    "wire.disk.revive_log.StateRecord.parse": (StateRecord.parse, BYTES),
    "wire.json_header.parse_ext_fields": (
        parse_ext_fields,
        EXT_BYTES,
    ),
    "wire.json_header.parse_members": (
        parse_members,
        EXT_BYTES,
    ),
    "wire.frame.parse_frame": (
        read_kv,
        {**FRAMES, "binary": binary_frame},
    ),
    "wire.frame.parse_marked_frame": (
        lambda frame: Connection(whole_headers=whole_headers()).receive_data(len(frame).to_bytes(4, "big") + frame),
        {name: json_header(make, 310) for name, make in EXT.items()},
    ),
    "wire.headers.declare.parse_header": (
        partial(parse_header, SendMessageRequest),
        {name: partial(send_fields, make) for name, make in TEXTS.items()},
    ),
    "wire.headers.declare.read_header": (read_kv, FRAMES),
    "wire.message.batch.parse_batch": (parse_batch, {"parts": batch, "zeros": bytes}),
    "wire.message.batch.split_batch": (split_batch, {"parts": batch, "zeros": bytes}),
    "wire.message.light_queues.named_places": (named_places, PLACES),
    "wire.message.message_id.parse_offset_message_id": (parse_offset_message_id, TEXTS),
    "wire.message.properties.parse_properties": (parse_properties, PAIRS),
    "wire.message.recall_handle.parse_recall_handle": (
        parse_recall_handle,
        {**TEXTS, "words": lambda size: base64.urlsafe_b64encode(b"v1 " * size).decode(), "ends": repeated("=")},
    ),
    "wire.message.record.parse_record": (lambda raw: parse_record(raw, check_crc=True).property_map, RECORDS),
    "wire.message.record.parse_record_ends": (
        lambda raw: parse_record_ends(raw[: tail_start(raw)], raw[tail_start(raw) :]).property_map,
        RECORDS,
    ),
    "wire.message.record.parse_records": (
        parse_records,
        {**RECORDS, "many": lambda size: record() * (size // 100), "zeros": bytes},
    ),
    "wire.message.tags.parse_tag_expression": (parse_tag_expression, {**TEXTS, "tags": numbered("t{}", between="||")}),
    "wire.proxy_header.parse_proxy_header": (
        parse_proxy_header,
        {
            "line without end": lambda size: b"PROXY " + b"1" * size,
            "line of blanks": lambda size: b"PROXY " + b" " * size + b"\r\n",
            "bytes behind a line": lambda size: b"PROXY UNKNOWN\r\n" + b"PROXY " * (size // 6),
            "long binary": lambda size: BINARY_BEGIN + b"\x21\x11" + bytes([0xFF, 0xFF]) + bytes(size),
            "bytes behind a binary one": lambda size: BINARY_BEGIN + b"\x20\x00\x00\x00" + bytes(size),
        },
    ),
    "wire.headers.declare.parse_bool": (parse_bool, TEXTS),
    "wire.headers.declare.parse_int": (lambda text: parse_int(text, 64), TEXTS),
    "gateway.access.plain.addresses.parse_pattern": (
        parse_pattern,
        {
            **TEXTS,
            "addresses": repeated("10.1.2.3,", after="10.1.2.3"),
            "braces": repeated("1,", "10.1.2.{", "1}"),
            "parts": repeated("*."),
            "parts of IPv6": repeated("*:"),
            "ranges": repeated("1-2.", "10."),
        },
    ),
    "gateway.access.plain.document.read_document": (
        lambda text: read_document(Parsing(Path("plain_acl.yml"), text.encode())),
        YAML,
    ),
    "gateway.access.plain.permissions.parse_entry": (parse_entry, {**TEXTS, "equals": repeated("=")}),
    "gateway.access.plain.permissions.parse_word": (parse_word, {**TEXTS, "words": repeated("PUB|")}),
    "gateway.access.policies.access_file.parse_users": (parse_users, USERS),
    "gateway.access.policies.resources.Resource.parse": (
        Resource.parse,
        {
            **TEXTS,
            "name": repeated("a", "Topic:"),
            "prefix": repeated("a", "Topic:", "*"),
            "stars": repeated("*", "Topic:"),
        },
    ),
    "gateway.client.compression.decompress": (
        lambda body: compression.decompress(body, 0),
        {"zeros": lambda size: zlib.compress(bytes(64 * size)), "noise": bytes},
    ),
    "gateway.client.consume.pop.pop_handles.parse_receipt": (parse_client_receipt, TEXTS),
    "gateway.client.consume.broker_calls.parse_reset": (
        broker_calls.parse_reset,
        {
            "map": as_bytes(numbered("{{" + QUEUE + "}}:1", '{"offsetTable":{', "}}")),
            "list": as_bytes(numbered("{{" + QUEUE + ',"offset":1}}', '{"offsetTable":[', "]}")),
        },
    ),
    "gateway.client.send.producer.parse_recall_handle": (parse_recall_handle, TEXTS),
    "gateway.delivery.pop.receipts.parse_receipt": (lambda text: parse_receipt(text, "b", 0, 0), TEXTS),
    "gateway.metadata.attributes.changed_attributes": (
        lambda text: changed_attributes({}, text, is_new=True),
        {**TEXTS, "many": numbered("+k{}=v")},
    ),
    "gateway.settings.addresses.parse_address": (parse_address, TEXTS),
    "gateway.settings.addresses.parse_addresses": (parse_addresses, TEXTS),
    "gateway.settings.addresses.parse_advertised": (parse_advertised, TEXTS),
    "gateway.settings.addresses.parse_networks": (parse_networks, {**TEXTS, "many": repeated("10.0.0.0/8,")}),
    "gateway.settings.files.properties.parse_properties_file": (
        lambda text: parse_properties_file(text, "body"),
        {
            **{name: as_bytes(make) for name, make in TEXTS.items()},
            "lines": as_bytes(numbered("k{}=v", between="\n")),
            "continued lines": as_bytes(repeated("a\\\n")),
            "backslashes": as_bytes(repeated("\\")),
            "blanks": as_bytes(repeated(" ", "a", "b")),
        },
    ),
    "gateway.transaction.records.op_messages.parse_op": (
        lambda body: parse_op(body, None),
        {**BYTES, "many": as_bytes(numbered("{}"))},
    ),
    "gateway.transaction.records.property_scan.parse_head": (lambda raw: parse_head(raw, 0), RECORDS),
}

OWN = {
    "gateway.broker.pages.head.parse_head": "a head of at most 8 KiB and 64 lines",
    "gateway.client.consume.offset_store.parse_offsets": "a file of the client's own",
    "gateway.client.formats.outgoing.split_batch": "the client's own messages",
    "gateway.replication.replicated_mark.parse_mark": "the first 12 bytes of a file of our own",
    "gateway.schedule.redirect.DelayLevels.parse": "a setting, read at start",
    "gateway.settings.files.load.read_assignments": "the command line",
    "gateway.settings.files.load.read_environment": "the environment",
    "gateway.settings.files.load.read_file": "reads a file; its text is parse_properties_file's",
    "gateway.store.disk.small_files.read_file": "reads bytes of a file, and looks at none",
    "gateway.spark.offsets.Checkpoint.parse": "a file of Spark's",
    "gateway.spark.offsets.parse_assignment": "an option of the job",
    "gateway.spark.offsets.parse_offsets": "an option of the job",
    "gateway.spark.options.read_options": "options of the job",
    "gateway.spark.pipelines.avro.read_bodies": "columns of a data frame, read by Avro",
    "gateway.store.index.index_file.read_head": "a head of 40 bytes",
    "gateway.store.disk.paths.parse_offset_name": "a file name of 20 digits",
    "gateway.store.queues.queue_ends.parse_list": "a file of our own, one pass",
    "gateway.store.queues.queue_extension.parse_unit": "a unit of our own, at most 64 KiB",
    "gateway.transaction.checks.check_journal.parse_checks": "a file of our own, one pass",
    "gateway.transaction.state_stores.remembered.Remembered.parse": "a row of our own",
    "wire.bodies.registration.RegisterBrokerBody.parse_in_steps": "parse takes its steps",
    "wire.disk.checkpoint.StoreCheckpoint.parse": "a file of fixed size",
    "gateway.client.connect.credentials.read_credentials": "64 KiB of a file of the client itself",
    "wire.disk.config_json.parse_config": "parse_json without limits; it is what runs for parse_json here",
    "wire.disk.config_json.parse_kv_config": "a class of bodies, see below",
    "wire.disk.consume_queue.parse_units": "entries of fixed size",
    "wire.disk.index_file.IndexHead.parse": "a head of 40 bytes",
    "wire.disk.queue_extension.ExtensionUnit.parse": "a unit of at most 64 KiB",
    "wire.disk.redo_log.parse_units": "entries of fixed size",
    "wire.disk.state_table.parse_units": "entries of fixed size",
    "wire.disk.state_table.TableMark.parse": "a file of fixed size",
    "wire.disk.timer_checkpoint.TimerCheckpoint.parse": "a file of fixed size",
}
"""Functions that read nothing of peers, or nothing that can be long, and why."""

CLASSES = {
    "wire.bodies.declare.JsonObject.parse",
    "wire.bodies.declare.JsonObject.read_json",
    "wire.disk.config_json.ConfigFile.parse",
}
"""Methods of all bodies and files; each class is a case of its own."""

READING = ("parse", "split_", "read_", "decode_", "decompress", "inflate")
SOURCES = [
    path.relative_to(ROOT)
    for package in ("wire", "gateway")
    for path in sorted((ROOT / package).rglob("*.py"))
    if not {"tests", "filters", "store_tool", "cli"} & {*path.parts}
]


def _readers(path: Path) -> set[str]:
    """The functions and class methods of a module whose names say that they read."""
    module = path.as_posix().removesuffix(".py").replace("/", ".")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    found = {f"{module}.{node.name}" for node in tree.body if isinstance(node, ast.FunctionDef)}
    for cls in [node for node in tree.body if isinstance(node, ast.ClassDef)]:
        found |= {
            f"{module}.{cls.name}.{method.name}"
            for method in cls.body
            if isinstance(method, ast.FunctionDef)
            and any(isinstance(mark, ast.Name) and mark.id == "classmethod" for mark in method.decorator_list)
        }
    return {name for name in found if name.rpartition(".")[2].startswith(READING)}


def test_every_reader_is_listed() -> None:
    found = {name for path in SOURCES for name in _readers(path)}
    assert found - COVERED.keys() - OWN.keys() - CLASSES == set(), "give it shapes, or say why it needs none"
    assert (OWN.keys() | CLASSES) - found == set(), "gone"


CASES = [(name, shape) for name, (_, made) in COVERED.items() for shape in made]


@pytest.mark.parametrize(("name", "shape"), CASES, ids=str)
def test_twice_the_input_takes_about_twice_as_long(name: str, shape: str) -> None:
    work, made = COVERED[name]
    assert growth_per_doubling(work, made[shape]) <= MOST_PER_DOUBLING


@pytest.mark.parametrize("cls", body_classes(), ids=lambda cls: f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}")
def test_twice_the_body_takes_about_twice_as_long(cls: type[JsonObject]) -> None:
    def read(raw: str) -> None:
        cls.from_json(config_json.parse_config(raw))

    growths = {name: growth_per_doubling(read, shape) for name, shape in shapes(cls)}
    assert {name: growth for name, growth in growths.items() if growth > MOST_PER_DOUBLING} == {}
