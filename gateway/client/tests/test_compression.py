import importlib
from typing import Any

import pytest

from gateway.client import compression
from gateway.client.compression import FLAGS, compress, decompress
from gateway.client.errors import ConfigurationError, MessageRefused
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
