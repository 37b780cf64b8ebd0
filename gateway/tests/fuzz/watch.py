"""The memory, sockets, threads and log lines of the server while it is fuzzed, read from outside."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

WRONG_LINE: Final = re.compile(r" level=(?:error|critical) | traceback=")
BROKEN_FILE: Final = re.compile(
    r' (?:event|event="lines left out" of)="(?:file of accounts cannot be used|users changed and cannot be used); '
)
"""What a server says of the files that are broken while accounts are changed, and how often it did not say so."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The resources of a process at one moment."""

    rss_bytes: int
    sockets: int
    descriptors: int
    threads: int


def taken_by(pid: int) -> Taken:
    """Read what a process takes now."""
    process = Path(f"/proc/{pid}")
    status = (process / "status").read_text()
    links = []
    for entry in (process / "fd").iterdir():
        try:
            links.append(entry.readlink().as_posix())
        except FileNotFoundError:  # closed meanwhile
            continue
    return Taken(
        rss_bytes=int(status.split("VmRSS:")[1].split()[0]) << 10,
        sockets=sum(link.startswith("socket:") for link in links),
        descriptors=len(links),
        threads=int(status.split("Threads:")[1].split()[0]),
    )


def is_compiled(pid: int) -> bool:
    """Return whether a process has loaded compiled modules of the gateway."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    return re.search(r"/(?:gateway|wire)/[^\n]*\.so|__mypyc[^\n]*\.so", maps) is not None


def is_wrong(line: str) -> bool:
    """Return whether a line of the log is an error that no file broken on purpose explains."""
    return " traceback=" in line or (WRONG_LINE.search(line) is not None and not BROKEN_FILE.search(line))


@dataclass(slots=True)
class Watched:
    """All that was seen of a server.

    :param log: the file that it logs to.
    """

    log: Path
    start: Taken
    most: Taken
    last: Taken
    minutes: list[int] = field(default_factory=list)
    """Log lines of each minute."""
    rss_bytes: list[int] = field(default_factory=list)
    """Resident memory at each look."""
    wrong_lines: list[str] = field(default_factory=list)
    _read_bytes: int = 0
    _lines: int = 0

    def look(self, now: Taken) -> None:
        """Note what the server takes now and what it logged since the last look."""
        self.last = now
        self.most = Taken(
            max(self.most.rss_bytes, now.rss_bytes),
            max(self.most.sockets, now.sockets),
            max(self.most.descriptors, now.descriptors),
            max(self.most.threads, now.threads),
        )
        self.rss_bytes.append(now.rss_bytes)
        with self.log.open("rb") as file:
            file.seek(self._read_bytes)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        lines = whole.decode("utf-8", "replace").splitlines()
        self._lines += len(lines)
        self.wrong_lines += [line for line in lines if is_wrong(line)]

    def minute_over(self) -> None:
        """Begin to count the log lines of another minute."""
        self.minutes.append(self._lines)
        self._lines = 0
