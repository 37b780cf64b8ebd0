"""Bodies compressed as the Java client does it: zlib streams, LZ4 frames, Zstandard frames.

The system flag says which: bit 0 "compressed", bits 8–10 the kind; older clients set bit 0 alone for zlib.
LZ4 and Zstandard come with the packages ``lz4`` and ``zstandard``, which are imported when first needed.
"""

from __future__ import annotations

import importlib
import zlib
from typing import Any, Final

from gateway.client.errors import ConfigurationError, MessageRefused
from wire.message.flags import SysFlag

MAX_DECOMPRESSED_BYTES: Final = 256 * 1024 * 1024
"""A body that grows beyond this is refused: a few KiB of zeros may claim to be gigabytes."""

_ZSTD_SLICE_BYTES: Final = 1024

FLAGS: Final = {
    "zlib": SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB,
    "lz4": SysFlag.COMPRESSED | SysFlag.COMPRESSION_LZ4,
    "zstd": SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZSTD,
}
"""Kind → the bits of the system flag."""

_PACKAGES: Final = {"lz4": ("lz4.frame", "lz4"), "zstd": ("zstandard", "zstandard")}


def compress(body: bytes, kind: str, level: int) -> bytes:
    """A body in one of the kinds of ``FLAGS``.

    :param level: 0 … 9 for zlib, up to 16 for LZ4, up to 22 for Zstandard; more is cut down to the highest.
    :raises ConfigurationError: the kind is unknown, or its package is not installed.
    """
    if kind == "zlib":
        return zlib.compress(body, min(level, 9))
    package = load_package(kind)
    compressed: bytes
    if kind == "lz4":
        compressed = package.compress(body, compression_level=min(level, 16))
    else:
        compressed = package.ZstdCompressor(level=min(level, 22)).compress(body)
    return compressed


def decompress(body: bytes, sys_flag: int) -> bytes:
    """The body that was compressed; ``sys_flag`` says how, and the caller looked at bit 0 already.

    :raises MessageRefused: the data is damaged, over ``MAX_DECOMPRESSED_BYTES``, of an unknown kind, or its
        package is not installed.
    """
    kind = sys_flag & SysFlag.COMPRESSION_MASK
    try:
        if kind in (0, SysFlag.COMPRESSION_ZLIB):
            return _bounded(zlib.decompressobj(), body)
        if kind == SysFlag.COMPRESSION_LZ4:
            return _bounded(load_package("lz4").LZ4FrameDecompressor(), body)
        if kind == SysFlag.COMPRESSION_ZSTD:
            return _decompress_zstd(load_package("zstd"), body)
    except (zlib.error, RuntimeError, EOFError, ValueError) as error:
        if isinstance(error, ConfigurationError):
            raise MessageRefused("body", f"is compressed and cannot be read: {error}") from error
        raise MessageRefused("body", f"is compressed and damaged: {error}") from error
    raise MessageRefused("body", f"is compressed in the unknown way {kind:#x}")


def load_package(kind: str) -> Any:
    """The module that does ``"lz4"`` or ``"zstd"``.

    :raises ConfigurationError: it is not installed, or the kind is unknown.
    """
    if kind not in _PACKAGES:
        raise ConfigurationError("compress_type", kind, "one of none, zlib, lz4, zstd")
    module, package = _PACKAGES[kind]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            "compress_type", kind, f"one whose package is installed: pip install {package}"
        ) from error


def _bounded(decompressor: Any, body: bytes) -> bytes:
    """What zlib's and LZ4's decompressor objects have in common: a maximum length, and ``eof`` at the end."""
    whole: bytes = decompressor.decompress(body, MAX_DECOMPRESSED_BYTES)
    if not decompressor.eof:
        problem = "longer than 256 MiB" if len(whole) >= MAX_DECOMPRESSED_BYTES else "cut off"
        raise ValueError(problem)
    return whole


def _decompress_zstd(package: Any, body: bytes) -> bytes:
    """In small slices, since this decompressor takes no limit: a KiB of input makes 32 MiB at most."""
    decompressor = package.ZstdDecompressor().decompressobj()
    pieces: list[bytes] = []
    size = 0
    try:
        for begin in range(0, len(body), _ZSTD_SLICE_BYTES):
            pieces.append(decompressor.decompress(body[begin : begin + _ZSTD_SLICE_BYTES]))
            size += len(pieces[-1])
            if size > MAX_DECOMPRESSED_BYTES:
                raise ValueError("longer than 256 MiB")
    except package.ZstdError as error:
        raise ValueError(str(error)) from error
    if not decompressor.eof:
        raise ValueError("cut off")
    return b"".join(pieces)
