"""The checksum of bodies: CRC-32 as zlib has it, by the quickest library at hand.

Of a body of 128 bytes it takes 0.05 µs by ISA-L (the extra ``fast``) and 0.15 by zlib, of 1 KiB 0.11 and 0.39, of
64 KiB 1.2 and 16. Callers keep the lower 31 bits, as Apache RocketMQ does (``UtilAll.crc32``).
"""

from __future__ import annotations

try:
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

__all__ = ["crc32"]
