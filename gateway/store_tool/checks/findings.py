"""The findings of a look at a store: where, what, and what would fix it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from gateway.store.disk.paths import printable

MAX_KEPT = 10_000
"""The largest number of findings that are kept. Further findings are only counted.

A directory of random bytes must not fill the memory.
"""

REPAIR = "rocketmq-gateway store repair"
START = "the next start settles it"


class FindingKind(StrEnum):
    """The part of the store that a finding is about."""

    LOG_FILE = "commit log file"
    RECORD = "record"
    FILLER = "filler"
    TAIL = "torn tail"
    QUEUE = "consume queue"
    UNIT = "consume queue unit"
    INDEX = "index file"
    ENTRY = "index entry"
    CHECKPOINT = "checkpoint"
    CONFIG = "configuration"
    ENTRY_KIND = "file or directory"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    ``position`` is a byte of the file at ``path``. ``commit_log_offset`` … ``commit_log_end`` is the part of the log
    concerned, if there is one. A finding may stand for ``count`` things of its kind; the text then names the first.
    ``settles`` is True if the next start of a server corrects what was found. Without another ``remedy`` that start, or
    otherwise a repair, is the remedy.
    """

    kind: FindingKind
    path: Path
    what: str
    remedy: str = ""
    _: KW_ONLY
    settles: bool = False
    position: int | None = None
    commit_log_offset: int | None = None
    commit_log_end: int | None = None
    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    count: int = 1

    def __str__(self) -> str:
        place = "" if self.position is None else f" byte {self.position}"
        if self.commit_log_offset is not None:
            place += f" (commit log offset {self.commit_log_offset})"
        if self.topic is not None:
            place += f" ({self.topic} queue {self.queue_id}"
            place += ")" if self.queue_offset is None else f" offset {self.queue_offset})"
        return f"{printable(self.path)}{place}: {self.what}; fix: {self.remedy}"

    def to_json(self) -> dict[str, Any]:
        """Return the finding for programs. Fields that do not apply are left out."""
        values: dict[str, Any] = {"kind": str(self.kind), "path": printable(self.path), "what": self.what}
        values["fix"] = self.remedy
        for name in (
            "position",
            "commit_log_offset",
            "commit_log_end",
            "topic",
            "queue_id",
            "queue_offset",
        ):
            if (value := getattr(self, name)) is not None:
                values[name] = value
        if self.count != 1:
            values["count"] = self.count
        return values


@dataclass(slots=True)
class Findings:
    """All findings in the store ``root``.

    ``damage`` has to be repaired. ``unsettled`` is what a killed server leaves and the next start corrects. ``notes``
    are worth knowing and harm nothing. ``dropped`` counts the findings that were not kept.
    """

    root: Path
    damage: list[Finding] = field(default_factory=list)
    unsettled: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    dropped: int = 0

    def add(self, finding: Finding) -> None:
        """Keep a finding."""
        kept = self.unsettled if finding.settles else self.damage
        if len(kept) < MAX_KEPT:
            remedy = finding.remedy or (START if finding.settles else f"{REPAIR} {self.root}")
            kept.append(replace(finding, remedy=remedy))
        else:
            self.dropped += 1

    def note(self, text: str) -> None:
        """Keep a remark; a repeated remark is kept once."""
        text = printable(text)
        if text not in self.notes and len(self.notes) < MAX_KEPT:
            self.notes.append(text)

    @property
    def is_clean(self) -> bool:
        """True if nothing has to be repaired."""
        return not self.damage
