"""Compression of bodies as in the Java client: zlib streams, LZ4 frames, Zstandard frames.

The system flag names the kind. Bit 0 means "compressed", and bits 8–10 hold the kind; older clients set only bit 0,
for zlib. The packages ``lz4`` and ``zstandard`` are imported at their first use.
"""

from __future__ import annotations

import importlib
import zlib
from collections import deque
from typing import Any, Final

from gateway.client.errors import ConfigurationError, MessageRefused
from gateway.client.lock import Lock
from wire.message.flags import SysFlag

MAX_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024
"""The largest size of a decompressed body: 16 times what producers send by default, four times the largest frame.

Larger bodies are refused.
"""
FREE_RATIO: Final = 32
"""The ratio of a body's size to its compressed size up to which bodies are free. Texts and JSON stay below this ratio.

A free body may be kept as long as the application likes, and does not count for ``EXCESS_LIMIT_BYTES``.
"""
EXCESS_LIMIT_BYTES: Final = 256 * 1024 * 1024
"""The most bytes that all kept bodies of a process may take beyond ``FREE_RATIO``: a KiB of zeros may become a MiB."""

FREE_BYTES: Final = 64 * 1024
"""The bytes that a body, or the inner batches of an answer together, may take, however small the compressed form was.
"""
_STEP_BYTES: Final = 4 * 1024 * 1024
_ZSTD_SLICE_BYTES: Final = 256
_ZSTD_WINDOW_BYTES: Final = 64 * 1024 * 1024
"""The most bytes that a frame may make the decompressor allocate; no body needs a window larger than the body."""

FLAGS: Final = {
    "zlib": SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB,
    "lz4": SysFlag.COMPRESSED | SysFlag.COMPRESSION_LZ4,
    "zstd": SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZSTD,
}
"""The bits of the system flag, by kind of compression."""

_PACKAGES: Final = {"lz4": ("lz4.frame", "lz4"), "zstd": ("zstandard", "zstandard")}


def compress(body: bytes, kind: str, level: int) -> bytes:
    """Return a body compressed in one of the kinds of ``FLAGS``.

    :param level: 0 … 9 for zlib, up to 16 for LZ4, up to 22 for Zstandard; a higher level is lowered to the highest.
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


def decompress(body: bytes, sys_flag: int, hold: Hold | None = None) -> bytes:
    """Return the decompressed body. ``sys_flag`` names the kind; the caller has checked its bit 0.

    :param hold: an object that the caller keeps as long as the body; None: the body is not kept.
    :raises MessageRefused: the data is damaged, larger than ``MAX_DECOMPRESSED_BYTES``, or of an unknown kind. Also
        raised if the package is not installed; ``RoomUsedUp`` if bodies of this process take ``EXCESS_LIMIT_BYTES``.
    """
    hold = Hold() if hold is None else hold
    before = hold.byte_count
    try:
        return _decompress(body, sys_flag & SysFlag.COMPRESSION_MASK, hold)
    except MessageRefused:
        hold.give_back(hold.byte_count - before)
        raise


def _decompress(body: bytes, kind: int, hold: Hold) -> bytes:
    try:
        if kind in (0, SysFlag.COMPRESSION_ZLIB):
            return _bounded(zlib.decompressobj(), body, hold)
        if kind == SysFlag.COMPRESSION_LZ4:
            return _bounded(load_package("lz4").LZ4FrameDecompressor(), body, hold)
        if kind == SysFlag.COMPRESSION_ZSTD:
            return _decompress_zstd(load_package("zstd"), body, hold)
    except (zlib.error, RuntimeError, EOFError, ValueError) as error:
        if isinstance(error, MessageRefused):
            raise
        if isinstance(error, ConfigurationError):
            raise MessageRefused("body", f"is compressed and cannot be read: {error}") from error
        raise MessageRefused("body", f"is compressed and damaged: {error}") from error
    raise MessageRefused("body", f"is compressed in the unknown way {kind:#x}")


def load_package(kind: str) -> Any:
    """Return the module that compresses ``"lz4"`` or ``"zstd"``.

    :raises ConfigurationError: the package is not installed, or the kind is unknown.
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


class RoomUsedUp(MessageRefused):
    """A body that can be read once other bodies of this process are gone."""


class Room:
    """The bytes that all bodies of this process may take beyond ``FREE_RATIO`` times their compressed size."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._lock = Lock()
        self._held = 0
        self._given_back: deque[int] = deque()

    @property
    def held_bytes(self) -> int:
        """The number of bytes that are taken and not given back."""
        with self._lock:
            while self._given_back:
                self._held -= self._given_back.popleft()
            return self._held

    def take(self, byte_count: int) -> None:
        """Take bytes.

        :raises RoomUsedUp: fewer bytes are left.
        """
        held = self.held_bytes
        with self._lock:
            if self._held + byte_count <= self.limit_bytes:
                self._held += byte_count
                return
        raise RoomUsedUp(
            "body",
            f"is compressed and takes more than {FREE_RATIO} times its size; such bodies hold {held >> 20} MiB in this "
            f"process, the limit is {self.limit_bytes >> 20} MiB: let go of messages, or take fewer of them at once",
        )

    def give_back(self, byte_count: int) -> None:
        """Give bytes back. Takes no lock, since finalisers call this method at any moment."""
        self._given_back.append(byte_count)


ROOM: Final = Room(EXCESS_LIMIT_BYTES)


class Allowance:
    """The bytes beyond ``FREE_RATIO`` that several bodies together may take for nothing."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = FREE_BYTES

    def spend(self, byte_count: int) -> None:
        """Reduce what is left, if the number of bytes is more than 0."""
        self.left = max(0, self.left - max(0, byte_count))


class Hold:
    """The part of ``ROOM`` that decompressed bodies take, as long as this object lives: keep it beside the bodies.

    :param allowance: what the bodies of several holds may take for nothing; None: each body has an allowance.
    """

    __slots__ = ("_allowance", "_room", "byte_count")

    def __init__(self, room: Room = ROOM, allowance: Allowance | None = None) -> None:
        self._room = room
        self._allowance = allowance
        self.byte_count = 0

    def allowance(self) -> Allowance:
        """Return the allowance of the next body."""
        return Allowance() if self._allowance is None else self._allowance

    def take(self, byte_count: int) -> None:
        """Take more bytes.

        :raises RoomUsedUp: fewer bytes are left in the room.
        """
        self._room.take(byte_count)
        self.byte_count += byte_count

    def give_back(self, byte_count: int) -> None:
        """Give back the bytes that were taken in excess."""
        self.byte_count -= byte_count
        self._room.give_back(byte_count)

    def __del__(self) -> None:
        if self.byte_count:
            self._room.give_back(self.byte_count)


def _bounded(decompressor: Any, body: bytes, hold: Hold) -> bytes:
    """Decompress with a decompressor object of zlib or LZ4; both have a maximum length, and ``eof`` at the end."""
    allowance, usual = hold.allowance(), len(body) * FREE_RATIO
    free = min(usual + allowance.left, MAX_DECOMPRESSED_BYTES)
    whole: bytes = decompressor.decompress(body, free)
    allowance.spend(len(whole) - usual)
    if decompressor.eof:
        return whole
    if len(whole) < free:
        raise ValueError("cut off")
    pieces, size = [whole], len(whole)
    is_zlib = hasattr(decompressor, "unconsumed_tail")  # the other kind keeps its input itself
    while pieces[-1] and not decompressor.eof:
        step = min(_STEP_BYTES, MAX_DECOMPRESSED_BYTES - size + 1)
        hold.take(step)
        pieces.append(decompressor.decompress(decompressor.unconsumed_tail if is_zlib else b"", step))
        size += len(pieces[-1])
        hold.give_back(step - len(pieces[-1]))
        _refuse_longer(size)
    if not decompressor.eof:
        raise ValueError("cut off")
    return b"".join(pieces)


def _decompress_zstd(package: Any, body: bytes, hold: Hold) -> bytes:
    """Decompress in small slices, since this decompressor takes no limit: one slice becomes 8 MiB at most."""
    decompressor = package.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES).decompressobj()
    allowance, usual = hold.allowance(), len(body) * FREE_RATIO
    free, held = usual + allowance.left, hold.byte_count
    pieces: list[bytes] = []
    size = 0
    try:
        for begin in range(0, len(body), _ZSTD_SLICE_BYTES):
            pieces.append(decompressor.decompress(body[begin : begin + _ZSTD_SLICE_BYTES]))
            size += len(pieces[-1])
            _refuse_longer(size)
            excess = size - free - (hold.byte_count - held)
            if excess > 0:
                hold.take(excess)
    except package.ZstdError as error:
        raise ValueError(str(error)) from error
    if not decompressor.eof:
        raise ValueError("cut off")
    allowance.spend(size - usual)
    return b"".join(pieces)


def _refuse_longer(size: int) -> None:
    if size > MAX_DECOMPRESSED_BYTES:
        raise ValueError(f"longer than {MAX_DECOMPRESSED_BYTES >> 20} MiB")
