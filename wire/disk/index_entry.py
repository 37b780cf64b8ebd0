"""The contents of entries in key index files; ``wire.disk.index_file`` declares the entries."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

MAX_SECONDS: Final = 0x7FFFFFFF


def entry_seconds(begin_ms: i64, stored_at_ms: i64) -> int:
    """Return the age that an entry keeps: seconds since the file's first store time, 0 … 2^31−1.

    The age is 0 while the file has no first store time.
    """
    if begin_ms <= 0 or stored_at_ms <= begin_ms:
        return 0
    return min((stored_at_ms - begin_ms) // 1000, MAX_SECONDS)
