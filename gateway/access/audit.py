"""The audit file: every refusal and every administrative change, one JSON object in each line.

    {"time":"2026-05-04T10:11:12.345Z","event":"refused","account":"shop","host":"10.1.2.3","client":"10.1.2.3@7#1",
     "code":310,"request":"SEND_MESSAGE_V2","resource":"Topic:orders","action":"Pub","rule":"no policy matches"}

Entries wait in memory until ``tick`` or a change starts a write in a thread. Equal refusals that wait together are one
line with ``times``, so a flood costs a line a second. What finds no room in memory or on the disk is counted; the next
line that is written, ``{"event":"left out","times":7}``, tells how many entries are missing. A failed write never
changes a decision about access.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from gateway.access.alone import alone
from gateway.clock import Milliseconds, wall_clock_ms
from gateway.in_thread import Failed, InThread
from gateway.readable import moment_text
from gateway.rotated_lines import RotatedLines
from gateway.telemetry.logs import EventLog
from wire.codes import request_code_name
from wire.safe_text import safe_json

log = EventLog("access")

MAX_WAITING: Final = 1000
"""The number of different refusals that wait for a write, and of changes; more are counted only."""
MAX_CHARACTERS: Final = 256
"""The number of characters of a text; what a peer sends may be longer."""
REFUSED: Final = "refused"
CHANGED: Final = "changed"


class Told(NamedTuple):
    """A refusal, or a change that was admitted, for log and audit.

    :param account: the name that the peer gave, whether or not there is such an account; "" for none.
    :param resource: ``Topic:orders``; "" if the request did not get as far as that.
    :param rule: the rule or the reason, never with a secret or a signature.
    :param client: the client id that the peer gave; "" if it gave none.
    """

    account: str
    host: str
    code: int
    resource: str
    action: str
    rule: str
    client: str = ""

    def cut(self) -> Told:
        """Return the same with no text longer than ``MAX_CHARACTERS``."""
        return self._replace(
            account=self.account[:MAX_CHARACTERS],
            resource=self.resource[:MAX_CHARACTERS],
            action=self.action[:MAX_CHARACTERS],
            rule=self.rule[:MAX_CHARACTERS],
            client=self.client[:MAX_CHARACTERS],
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
            "code": told.code,
            "request": request_code_name(told.code),
            "resource": told.resource,
            "action": told.action,
            "rule": told.rule,
        }
        if self.times > 1:
            facts["times"] = self.times
        return safe_json({name: value for name, value in facts.items() if value != ""})


class Audit:
    """Writes the audit file of one server. All methods are for the reactor's thread.

    Only the owner may read the file, and several servers of a machine may have the same one.

    :param max_bytes: the size that no file exceeds.
    :param files: the number of files, with the one that is being written.
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
        self._file = RotatedLines(path, max_bytes=max_bytes, files=files, lock=partial(alone, path), mode=0o600)
        self._in_thread = in_thread
        self._clock_ms = clock_ms
        self._refusals: dict[Told, _Entry] = {}
        self._changes: list[_Entry] = []
        self._writing = False
        self._failing = False
        self.left_out = 0
        """The number of entries that are in no file and have not been told of in one."""

    def refused(self, told: Told) -> None:
        """Note a refused request."""
        told = told.cut()
        known = self._refusals.get(told)
        if known is not None:
            known.times += 1
        elif len(self._refusals) >= MAX_WAITING:
            self.left_out += 1
        else:
            self._refusals[told] = _Entry(self._clock_ms(), REFUSED, told)

    def changed(self, told: Told) -> None:
        """Note an administrative change, and start to write it."""
        if len(self._changes) >= MAX_WAITING:
            self.left_out += 1
        else:
            self._changes.append(_Entry(self._clock_ms(), CHANGED, told.cut()))
        self.tick()

    def tick(self) -> None:
        """Start to write what waits, unless a write is under way; to be called once a second."""
        if not self._writing and (self._refusals or self._changes or self.left_out):
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
        batch = sorted([*self._refusals.values(), *self._changes], key=_time_of)
        left_out, self.left_out = self.left_out, 0
        self._refusals, self._changes = {}, []
        return batch, left_out

    def _write(self, entries: Iterable[_Entry], left_out: int) -> None:
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


def _time_of(entry: _Entry) -> int:
    return entry.time_ms
