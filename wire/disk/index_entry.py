"""Writing the entries of key index files; ``wire.disk.index_file`` declares them."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i64

MAX_SECONDS: Final = 0x7FFFFFFF


def write_entry(entries: BytesWriter, key_hash: int, commit_log_offset: i64, seconds: int, previous_entry: int) -> None:
    """One entry more, as ``ENTRY`` packs it. Nothing is negative: the offset takes 63 bits, the others 31."""
    write_i32_be(entries, key_hash)
    write_i64_be(entries, commit_log_offset)
    write_i32_be(entries, seconds)
    write_i32_be(entries, previous_entry)


def entry_seconds(begin_ms: i64, stored_at_ms: i64) -> int:
    """The age an entry keeps: seconds since the file's begin, 0 … 2^31−1; 0 while the file has no begin."""
    if begin_ms <= 0 or stored_at_ms <= begin_ms:
        return 0
    return min((stored_at_ms - begin_ms) // 1000, MAX_SECONDS)
