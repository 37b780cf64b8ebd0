"""What opening a store found and did."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class RecoveryReport:
    """What opening found and did.

    ``clean``: the store was closed properly. ``start_offset`` … ``end_offset``: the part of the log that was walked.
    ``last_stored_at_ms``: when the newest message of that part was stored, or the last one before it; 0 when unknown.
    ``torn_bytes`` at the end were cut; a copy is at ``torn_copy``. ``durable_bytes_lost`` of these, or beyond them,
    had been reported as on disk.
    """

    clean: bool
    start_offset: int = 0
    end_offset: int = 0
    last_stored_at_ms: int = 0
    records: int = 0
    units: int = 0
    torn_bytes: int = 0
    torn_copy: Path | None = None
    durable_bytes_lost: int = 0
    rebuilt_queues: int = 0
    remarks: list[str] = field(default_factory=list)
