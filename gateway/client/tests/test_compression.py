import gc
import importlib
import tracemalloc
import zlib
from functools import cache
from typing import Any

import pytest

from gateway.client import compression
from gateway.client.compression import FLAGS, ROOM, Hold, Room, compress, decompress
from gateway.client.consume.pulled import pulled_messages
from gateway.client.errors import ConfigurationError, MessageRefused
from gateway.client.message import ReceivedMessage
from gateway.client.message_queue import MessageQueue
from gateway.client.tests.consume.test_pulled import record
from wire.message.batch import INNER_BATCH, BatchPart, build_batch
from wire.message.flags import SysFlag

BODY = b"0123456789" * 500


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
@pytest.mark.parametrize("level", [0, 5, 22])
def test_a_body_comes_back(kind: str, level: int) -> None:
    compressed = compress(BODY, kind, level)
    assert decompress(compressed, FLAGS[kind]) == BODY


@pytest.mark.parametrize(
    ("kind", "start"), [("zlib", b"\x78\x5e"), ("lz4", b"\x04\x22\x4d\x18"), ("zstd", b"\x28\xb5\x2f\xfd")]
)
def test_the_format_is_the_one_java_reads(kind: str, start: bytes) -> None:
    assert compress(BODY, kind, 5).startswith(start)


def test_the_flags_are_javas() -> None:
    assert FLAGS == {"zlib": 0x301, "lz4": 0x101, "zstd": 0x201}


def test_a_flag_of_old_clients_means_zlib() -> None:
    assert decompress(compress(BODY, "zlib", 5), SysFlag.COMPRESSED) == BODY


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
def test_damage_is_refused(kind: str) -> None:
    compressed = compress(BODY, kind, 5)
    for damaged in (compressed[:-5], b"garbage", b"", compressed[:4] + b"\xff" * 20):
        with pytest.raises(MessageRefused, match="damaged"):
            decompress(damaged, FLAGS[kind])


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
def test_a_bomb_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "MAX_DECOMPRESSED_BYTES", 10_000)
    compressed = compress(b"\0" * 1_000_000, kind, 5)
    with pytest.raises(MessageRefused, match="longer than"):
        decompress(compressed, FLAGS[kind])


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(MessageRefused, match="unknown"):
        decompress(BODY, SysFlag.COMPRESSED | 0x400)
    with pytest.raises(ConfigurationError):
        compress(BODY, "gzip", 5)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ConfigurationError, match="pip install zstandard"):
        compress(BODY, "zstd", 5)
    with pytest.raises(MessageRefused, match="pip install lz4"):
        decompress(BODY, FLAGS["lz4"])


MIB = 1024 * 1024
VAST_BYTES = 60 * MIB


@cache
def vast(kind: str) -> bytes:
    """60 MiB of zeros, some KiB when compressed."""
    return compress(bytes(VAST_BYTES), kind, 1)


def received(body: bytes, flags: int) -> list[ReceivedMessage]:
    """Return what a pull of this body brings."""
    return pulled_messages(record(0, body, sys_flag=flags), MessageQueue("t", "b", 0), asked=1)[0]


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
def test_bodies_that_are_kept_at_once_have_a_limit_together(kind: str) -> None:
    messages = [received(vast(kind), FLAGS[kind])[0] for _ in range(6)]
    assert [len(message.body) for message in messages[:4]] == [VAST_BYTES] * 4
    for message in messages[4:]:
        with pytest.raises(MessageRefused, match="the limit is 256 MiB") as caught:
            message.body  # noqa: B018
        assert caught.value.part == "body"
    refused = messages.pop()
    messages.clear()
    del message, caught
    gc.collect()
    assert ROOM.held_bytes == 0
    assert len(refused.body) == VAST_BYTES, "there is room again"


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
def test_bodies_as_people_write_them_take_nothing_of_the_limit(kind: str) -> None:
    text = b"".join(
        b'{"order":%d,"customer":"c-%d","state":"paid"}' % (number * 7919, number) for number in range(20_000)
    )
    hold = Hold()
    assert decompress(compress(text, kind, 5), FLAGS[kind], hold) == text
    assert hold.byte_count == 0


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
def test_what_was_refused_holds_nothing(kind: str) -> None:
    room = Room(30 * MIB)
    holds = [Hold(room), Hold(room)]
    ten = compress(bytes(10 * MIB), kind, 1)
    for body, hold in ((vast(kind), holds[0]), (ten[:-3], holds[1])):
        with pytest.raises(MessageRefused):
            decompress(body, FLAGS[kind], hold)
    assert room.held_bytes == 0
    decompress(ten, FLAGS[kind], holds[0])
    assert 7 * MIB < room.held_bytes <= 10 * MIB
    holds.clear()
    gc.collect()
    assert room.held_bytes == 0


def test_sixteen_small_messages_take_no_gigabytes() -> None:
    deflate = zlib.compressobj(1)
    body = b"".join([*(deflate.compress(bytes(MIB)) for _ in range(80)), deflate.flush()])
    messages = [message for _ in range(16) for message in received(body, FLAGS["zlib"])]
    tracemalloc.start()
    try:
        for message in messages:
            with pytest.raises(MessageRefused, match="longer than 64 MiB"):
                message.body  # noqa: B018
        assert tracemalloc.get_traced_memory()[1] < 200 * MIB
    finally:
        tracemalloc.stop()


def test_inner_batches_hold_what_they_take_as_long_as_one_of_their_messages_lives() -> None:
    batch = build_batch([BatchPart(0, bytes(10 * MIB), b""), BatchPart(0, b"small", b"")])
    messages = received(zlib.compress(batch, 1), INNER_BATCH | FLAGS["zlib"])
    assert [len(message.body) for message in messages] == [10 * MIB, 5]
    before = ROOM.held_bytes
    assert before > 7 * MIB
    del messages[0]
    gc.collect()
    assert ROOM.held_bytes == before
    messages.clear()
    gc.collect()
    assert ROOM.held_bytes == 0
