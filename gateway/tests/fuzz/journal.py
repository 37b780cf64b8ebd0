"""The sent bytes in order: kept to send them again after a fault, and to find the shortest part that causes it."""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAX_ENTRIES: Final = 20_000
MAX_BYTES: Final = 64 << 20
ENCRYPTED: Final = " over TLS"
"""Behind the name of a server: what was sent encrypted."""
INSIDE: Final = " inside TLS"
"""Behind the name of a server: what was sent between encrypted bytes as it is."""
ANSWER_PATIENCE_S: Final = 0.1
"""Seconds that a replay waits for an answer before it goes on."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One write on one connection, or with ``data`` None its end."""

    connection: int
    server: str
    data: bytes | None


class Journal:
    """The last entries of a run."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._bytes = 0

    def add(self, connection: int, server: str, data: bytes | None) -> None:
        """Note one more; the oldest go when there are too many."""
        self._entries.append(Entry(connection, server, data))
        self._bytes += len(data or b"")
        while len(self._entries) > MAX_ENTRIES or self._bytes > MAX_BYTES:
            self._bytes -= len(self._entries.popleft().data or b"")

    @property
    def entries(self) -> list[Entry]:
        """All that are kept, the oldest first."""
        return list(self._entries)


def save(path: Path, entries: Iterable[Entry]) -> None:
    """Write entries as lines of JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="ascii") as file:
        for entry in entries:
            data = None if entry.data is None else base64.b64encode(entry.data).decode("ascii")
            file.write(json.dumps([entry.connection, entry.server, data]) + "\n")


def load(path: Path) -> list[Entry]:
    """Read what ``save`` wrote."""
    rows = [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]
    return [Entry(row[0], row[1], None if row[2] is None else base64.b64decode(row[2])) for row in rows]


def replay(entries: Iterable[Entry], addresses: dict[str, tuple[str, int]]) -> None:
    """Send them again, connection by connection as they came, each write after the answer to the one before."""
    open_ones: dict[int, socket.socket] = {}
    for entry in entries:
        link = open_ones.get(entry.connection)
        if entry.data is None:
            if link is not None:
                link.close()
                del open_ones[entry.connection]
            continue
        with suppress(OSError):
            if link is None:
                link = open_ones[entry.connection] = _opened(entry, addresses)
                link.settimeout(ANSWER_PATIENCE_S)
            if entry.server.endswith(INSIDE):
                os.write(link.fileno(), entry.data)
            else:
                link.sendall(entry.data)
            link.recv(1 << 16)
    for link in open_ones.values():
        link.close()


def _opened(entry: Entry, addresses: dict[str, tuple[str, int]]) -> socket.socket:
    name = entry.server.removesuffix(ENCRYPTED).removesuffix(INSIDE)
    link = socket.create_connection(addresses[name], timeout=5)
    if name == entry.server:
        return link
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(link)


def shrink(entries: Sequence[Entry], fails: Callable[[Sequence[Entry]], bool], *, max_tries: int = 60) -> list[Entry]:
    """Return fewer entries with which ``fails`` is still true: connections are left out first, then single writes.

    :param max_tries: calls of ``fails`` at most; the best until then is returned.
    """
    tries = 0

    def reduced(parts: list[list[Entry]]) -> list[list[Entry]]:
        nonlocal tries
        size = max(1, len(parts) // 2)
        while True:
            at = 0
            while at < len(parts) and len(parts) > 1:
                if tries >= max_tries:
                    return parts
                tries += 1
                rest = parts[:at] + parts[at + size :]
                if rest and fails(_in_order(rest, entries)):
                    parts = rest
                else:
                    at += size
            if size == 1:
                return parts
            size = max(1, size // 2)

    by_connection: dict[int, list[Entry]] = {}
    for entry in entries:
        by_connection.setdefault(entry.connection, []).append(entry)
    kept = reduced(list(by_connection.values()))
    single = reduced([[entry] for entry in _in_order(kept, entries)])
    return _in_order(single, entries)


def _in_order(parts: Iterable[Iterable[Entry]], entries: Sequence[Entry]) -> list[Entry]:
    wanted = {id(entry) for part in parts for entry in part}
    return [entry for entry in entries if id(entry) in wanted]
