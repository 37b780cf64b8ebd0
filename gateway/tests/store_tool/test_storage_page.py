"""The worked example of docs/storage/formats.md is what the code writes, byte by byte."""

from __future__ import annotations

import re
from pathlib import Path

from wire.disk.checkpoint import VALUES
from wire.disk.consume_queue import UNIT_BYTES, build_unit
from wire.disk.index_file import ENTRY, HEAD, NO_ENTRY
from wire.message.java_hash import index_key_hash, java_string_hash
from wire.message.record import HEADS, OutgoingMessage, build_record

PAGE = Path(__file__).parents[3] / "docs" / "storage" / "formats.md"
LOG_OFFSET, QUEUE_OFFSET = 4096, 2
LINE = re.compile(r"^(record|unit|entry|) +(\d+)  ((?:[0-9a-f]{2,} ?)+?)  ")


def _shown() -> dict[str, bytes]:
    """The bytes on the page, by what they are; each line of the record says where it stands in it."""
    found: dict[str, bytes] = {}
    name = ""
    for line in PAGE.read_text().splitlines():
        matched = LINE.match(line)
        if matched is None:
            continue
        name = matched[1] or name
        if name == "record":
            assert int(matched[2]) == len(found.get(name, b"")), line
        found[name] = found.get(name, b"") + bytes.fromhex(matched[3])
    return found


def _host(port: int) -> bytes:
    return bytes((127, 0, 0, 1)) + port.to_bytes(4, "big")


def test_the_example_is_what_is_written() -> None:
    message = OutgoingMessage(
        topic="T",
        queue_id=0,
        flag=0,
        sys_flag=0,
        born_at_ms=1_700_000_000_000,
        born_host=_host(50_000),
        store_host=_host(10_911),
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=b"hello",
        properties=b"KEYS\x01k1\x02TAGS\x01a\x02",
    )
    record = build_record(message, QUEUE_OFFSET, LOG_OFFSET, 1_700_000_000_500)
    assert _shown() == {
        "record": record,
        "unit": build_unit(LOG_OFFSET, len(record), java_string_hash("a")),
        "entry": ENTRY.pack(index_key_hash("T", "k1"), LOG_OFFSET, 0, NO_ENTRY),
    }


def test_the_grammar_has_every_field_in_its_order_with_its_size() -> None:
    text = PAGE.read_text()
    grammar = text[text.index("record      =") : text.index("body topic properties ;")]
    sizes = {"i32": 4, "i64": 8, "host": 8}
    fields = re.findall(r"(\w+):(i32|i64|host)", grammar)
    assert [sizes[kind] for _, kind in fields] == [
        end - begin for begin, end in zip(_offsets(), [*_offsets()[1:], HEADS[0].size], strict=True)
    ]
    for start, layout in (("index_file  =", HEAD), ("entry       =", ENTRY), ("checkpoint  =", VALUES)):
        kinds = [kind for _, kind in re.findall(r"(\w+):(i32|i64)", text[text.index(start) :])[: len(layout.names)]]
        assert sum(sizes[kind] for kind in kinds) == layout.size
    assert f"byte {UNIT_BYTES} · n" in text


def _offsets() -> list[int]:
    return [HEADS[0].offset(name) for name in HEADS[0].names]
