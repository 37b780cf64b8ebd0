"""The audit files: every refusal and every administrative change, one JSON object in each line.

    {"time":"2026-05-04T10:11:12.345Z","event":"refused","account":"shop","host":"10.1.2.3","client":"10.1.2.3@7#1",
     "code":310,"request":"SEND_MESSAGE_V2","resource":"Topic:orders","action":"Pub","rule":"no policy matches"}

Refusals and changes have a file each, ``audit.jsonl`` and ``audit.changes.jsonl``, so that no refusal pushes a change
out of the files that are kept. Entries wait in memory until ``tick`` or a change starts a write in a thread. Equal
refusals that wait together become one line, and ``times`` counts them. All further refusals of a host become one line
as well, once the host had ``MAX_LINES_PER_HOST`` lines within a minute. Entries that find no room in memory or on the
disk are counted, and the next line that is written has their number: ``{"event":"left out","times":7}``. A failed write
never changes a decision about access.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from gateway.access.alone import alone
from gateway.access.failures import Failures
from gateway.clock import Milliseconds, wall_clock_ms
from gateway.in_thread import Failed, InThread
from gateway.readable import moment_text
from gateway.rotated_lines import RotatedLines
from gateway.shares import counted_host
from gateway.telemetry.logs import EventLog
from wire.codes import request_code_name
from wire.safe_text import safe_json

log = EventLog("access")

MAX_WAITING: Final = 1000
"""The most different refusals that wait for a write, and the most changes; further ones are only counted."""
MAX_LINES_PER_HOST: Final = 100
"""The most lines a minute about one host, or one /64 network of IPv6. One line a second counts further refusals."""
MAX_BYTES: Final = 256
"""The most bytes of a text in a line, escapes included. Longer texts of a peer are cut."""
REFUSED: Final = "refused"
CHANGED: Final = "changed"
MORE_OF_HOST: Final = "and more of this host"


class Told(NamedTuple):
    """One refusal or one permitted change, for the log and the audit files.

    :param account: the name that the peer gave, whether or not there is such an account; "" for none.
    :param code: the request's code; None if the line stands for different requests of a host.
    :param resource: ``Topic:orders``; "" if the request was refused before its resources were known.
    :param rule: the rule or the reason, never with a secret or a signature.
    :param client: the client id that the peer gave; "" if it gave none.
    """

    account: str
    host: str
    code: int | None
    resource: str
    action: str
    rule: str
    client: str = ""

    def cut(self) -> Told:
        """Return a copy in which every text is cut to ``MAX_BYTES``."""
        return self._replace(
            account=_cut(self.account),
            resource=_cut(self.resource),
            action=_cut(self.action),
            rule=_cut(self.rule),
            client=_cut(self.client),
        )


@dataclass(slots=True)
class _Entry:
    """One line; ``times`` counts equal refusals."""

    time_ms: int
    event: str
    told: Told
    times: int = 1

    def line(self) -> str:
        told = self.told
        facts: dict[str, object] = {
            "time": moment_text(self.time_ms),
            "event": self.event,
            "account": told.account,
            "host": told.host,
            "client": told.client,
            "code": "" if told.code is None else told.code,
            "request": "" if told.code is None else request_code_name(told.code),
            "resource": told.resource,
            "action": told.action,
            "rule": told.rule,
        }
        if self.times > 1:
            facts["times"] = self.times
        return safe_json({name: value for name, value in facts.items() if value != ""})


class Audit:
    """Writes the audit files of one server. All methods are for the reactor's thread.

    Only the owner may read the files, and several servers of a machine may have the same ones.

    :param path: the file of refusals; the file of changes is beside it.
    :param max_bytes: the size that no file exceeds.
    :param files: the number of files of either kind, with the one that is being written.
    """

    def __init__(
        self,
        path: Path,
        in_thread: InThread,
        *,
        max_bytes: int,
        files: int,
        clock_ms: Milliseconds = wall_clock_ms,
    ) -> None:
        self._refusals, self._changes = (
            _Entries(
                RotatedLines(each, max_bytes=max_bytes, files=files, lock=partial(alone, each), mode=0o600), in_thread
            )
            for each in (path, changes_file(path))
        )
        self._clock_ms = clock_ms
        self._lines = Failures(MAX_LINES_PER_HOST, clock_ms)

    @property
    def left_out(self) -> int:
        """The number of entries that are in no file and have not been told of in one."""
        return self._refusals.left_out + self._changes.left_out

    def refused(self, told: Told) -> None:
        """Note a refused request."""
        told = told.cut()
        if self._refusals.repeats(told):
            return
        if self._lines.failed(told.host):
            told = Told("", counted_host(told.host), None, "", "", MORE_OF_HOST)
            if self._refusals.repeats(told):
                return
        self._refusals.add(told, _Entry(self._clock_ms(), REFUSED, told))

    def changed(self, told: Told) -> None:
        """Note an administrative change, and start to write it."""
        self._changes.add(object(), _Entry(self._clock_ms(), CHANGED, told.cut()))
        self._changes.tick()

    def tick(self) -> None:
        """Start to write what waits, unless a write is under way; to be called once a second."""
        self._refusals.tick()
        self._changes.tick()

    def close(self) -> None:
        """Write what waits; blocks, also for a write that is under way."""
        self._refusals.close()
        self._changes.close()


class _Entries:
    """The entries that wait for one file."""

    def __init__(self, file: RotatedLines, in_thread: InThread) -> None:
        self._file = file
        self._in_thread = in_thread
        self._waiting: dict[object, _Entry] = {}
        self._writing = False
        self._failing = False
        self.left_out = 0

    def repeats(self, key: object) -> bool:
        """Return whether an entry with this key waits; such an entry counts once more."""
        known = self._waiting.get(key)
        if known is not None:
            known.times += 1
        return known is not None

    def add(self, key: object, entry: _Entry) -> None:
        """Keep an entry until the next write, or count it if there is no room."""
        if len(self._waiting) >= MAX_WAITING:
            self.left_out += 1
        else:
            self._waiting[key] = entry

    def tick(self) -> None:
        """Start a write if something waits and none is under way."""
        if not self._writing and (self._waiting or self.left_out):
            self._writing = True
            batch, left_out = self._take()
            lost = left_out + sum(entry.times for entry in batch)
            self._in_thread(partial(self._write, batch, left_out), partial(self._written, lost))

    def close(self) -> None:
        """Write what waits; blocks, also for a write that is under way."""
        batch, left_out = self._take()
        if batch or left_out:
            try:
                self._write(batch, left_out)
            except OSError as error:
                self._written(left_out + sum(entry.times for entry in batch), Failed(error))

    def _take(self) -> tuple[list[_Entry], int]:
        batch, left_out = list(self._waiting.values()), self.left_out
        self._waiting, self.left_out = {}, 0
        return batch, left_out

    def _write(self, entries: list[_Entry], left_out: int) -> None:
        """Append entries whole, or nothing; blocks.

        :raises OSError: the disk is full, or the file cannot be written.
        """
        lines = [entry.line() for entry in entries]
        if left_out:
            lines.append(safe_json({"event": "left out", "times": left_out}))
        self._file.append("".join(f"{line}\n" for line in lines).encode())

    def _written(self, lost: int, outcome: Failed | None) -> None:
        self._writing = False
        if outcome is None:
            if self._failing:
                log.info("audit file written again")
            self._failing = False
            return
        self.left_out += lost
        if not self._failing:
            log.error("audit file not written; its entries are counted", file=self._file.path, fault=outcome.error)
        self._failing = True


def changes_file(path: Path) -> Path:
    """Return the file of changes that belongs to a file of refusals: ``audit.changes.jsonl`` to ``audit.jsonl``."""
    return path.with_name(f"{path.stem}.changes{path.suffix}")


def _cut(text: str) -> str:
    """Return as much of a text as takes no more than ``MAX_BYTES`` in a line."""
    if len(text) <= MAX_BYTES // 2 and text.isascii() and text.isprintable():  # at most each quote is escaped
        return text
    text = text[:MAX_BYTES]
    while (size := len(safe_json(text).encode()) - len('""')) > MAX_BYTES:
        text = text[: len(text) * MAX_BYTES // size]
    return text
