"""Producers that can be killed: each a container of its own, all of one producer group."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field

from compat_tests.java_client import CLIENT_VERSIONS, Answer, JavaClient, java_client

_ENTRY = struct.Struct(">iii")
_LEDGER = "load"
NUMBERS_EACH = 1_000_000
"""An incarnation counts from its own number on: what one of them was about to send is sent by no other."""

Entries = list[tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class Work:
    """The work of all producers of a run; ``more`` are further options of `RandomTransactions.java`."""

    nameserver: str
    topic: str
    run: str
    epoch_ms: int
    threads: int
    longest_s: int
    more: Mapping[str, object] = field(default_factory=dict)


class Producer:
    """One producer: started, killed and started again; what it saw until it was last asked is known."""

    def __init__(self, work: Work, numbers: Iterator[int]) -> None:
        self._work = work
        self._numbers = numbers
        self._stack = ExitStack()
        self._client: JavaClient | None = None
        self._running: Future[Answer] | None = None
        self.kills = 0

    def start(self) -> None:
        work = self._work
        self._client = self._stack.enter_context(java_client(CLIENT_VERSIONS[-1]))
        self._running = self._client.start(
            "transact-random",
            timeout_s=work.longest_s,
            ns=work.nameserver,
            topic=work.topic,
            run=work.run,
            group=f"pg_{work.topic}",
            first=next(self._numbers),
            ledger=_LEDGER,
            epoch_ms=work.epoch_ms,
            threads=work.threads,
            until="enough",
            # A message that the client sends again by itself would be two transactions of one number.
            retries=0,
            send_timeout_ms=3000,
            **work.more,
        )

    def look(self) -> Entries:
        """Return the notes since the last look.

        :raises AssertionError: it ended, though nobody told it to.
        """
        assert self._client is not None
        assert self._running is not None
        if self._running.done():
            self._running.result()
        page = self._client.run("ledger", names=_LEDGER).json(_LEDGER)
        return list(_ENTRY.iter_unpack(base64.b64decode(page["entries"])))

    def kill(self) -> Entries:
        """End the producer as `kill -9` does; return its notes until then."""
        assert self._client is not None
        seen = self.look()
        self._client.kill()
        self._stack.close()
        self.kills += 1
        return seen

    def stop_sending(self) -> None:
        """From now on it only answers checks."""
        assert self._client is not None
        self._client.stop("enough")

    def stop(self) -> None:
        """Stop the producer in an orderly way, if it still runs."""
        if self._client is not None and self._running is not None and not self._running.done():
            self._client.stop("enough")
            self._client.stop("enough-checks")
            self._running.result()

    def close(self) -> None:
        """Remove its container."""
        self._stack.close()
