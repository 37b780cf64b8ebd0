"""The report of what the opening of a store found and did."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class RecoveryReport:
    """The findings and actions of an opening.

    - ``clean``: True if the store was closed properly.
    - ``start_offset``, ``end_offset``: the part of the log that was walked.
    - ``last_stored_at_ms``: the store time of the newest message of that part, or of the last message before it; 0 if
      unknown.
    - ``torn_bytes``: the number of bytes cut at the end of the log; ``torn_copy`` is the path of their copy.
    - ``durable_bytes_lost``: how many of these bytes, or of bytes beyond them, had been reported as on disk.
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
