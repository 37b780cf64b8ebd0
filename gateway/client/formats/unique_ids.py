"""Message ids as the Java client makes them (upstream ``MessageClientIDSetter``), so that its tools can read the ids.

An id consists of address, process, a number that differs between makers in one process, milliseconds since the start of
the month in local time, and a counter. ``wire.message.message_id`` has the layout.
"""

from __future__ import annotations

import itertools
import random as randomness
from datetime import datetime
from ipaddress import ip_address
from typing import Final

from gateway.client.clock import Milliseconds
from wire.message.message_id import UNIQUE_KEY_TAIL, UniqueKeys

_TAIL_CHARS: Final = UNIQUE_KEY_TAIL.size * 2
_COUNTED: Final = 0xFFFF


class UniqueIds:
    """Makes ids: ``create`` returns the next id, with 32 characters, or 56 for an IPv6 address.

    :param ip: this machine's address as text.
    :param process_id: this process's id; only its lower 16 bits are used.
    :param clock: the wall clock. Months are those of the machine's time zone.
    :param random: source of the number that stands for Java's class loader.
    """

    def __init__(self, ip: str, process_id: int, *, clock: Milliseconds, random: randomness.Random) -> None:
        self._clock = clock
        self._month_started_ms = 0
        self._month_ends_ms = 0
        self._counter = itertools.count()  # one step even among threads, so that no id comes twice
        self._last_ms = -1
        self._timed_head = ""
        instance_hash = random.randrange(-(2**31), 2**31)
        first = UniqueKeys(
            ip=ip_address(ip).packed, process_id=process_id, instance_hash=instance_hash, elapsed_ms=lambda: 0
        ).create_unique_key()
        self._head = first[:-_TAIL_CHARS]

    def create(self) -> str:
        """Return the next id."""
        return self.create_at(self._clock())

    def create_at(self, now_ms: int) -> str:
        """Return the next id, for a caller that has already read the clock."""
        # As UniqueKeys packs its tail; text at once, since one is made for every message.
        if now_ms != self._last_ms:
            self._turn_to(now_ms)
        return f"{self._timed_head}{next(self._counter) & _COUNTED:04X}"

    def create_all(self, now_ms: int, count: int) -> tuple[str, list[int]]:
        """Return the common start of ``count`` new ids, and the last 4 digits of each id as a number.

        At most 65,535 ids at once, so that no id comes twice.
        """
        assert 0 <= count <= _COUNTED, "else ids would come twice"
        if now_ms != self._last_ms:
            self._turn_to(now_ms)
        return self._timed_head, [number & _COUNTED for number in itertools.islice(self._counter, count)]

    def _turn_to(self, now_ms: int) -> None:
        if not self._month_started_ms <= now_ms < self._month_ends_ms:
            self._month_started_ms, self._month_ends_ms = month_of(now_ms)
        self._last_ms = now_ms
        self._timed_head = f"{self._head}{now_ms - self._month_started_ms:08X}"


def month_of(now_ms: int) -> tuple[int, int]:
    """Return the start and end of the local month of a moment, in milliseconds since the epoch."""
    now = datetime.fromtimestamp(now_ms / 1000)
    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    end = begin.replace(year=begin.year + 1, month=1) if begin.month == 12 else begin.replace(month=begin.month + 1)
    return int(begin.timestamp() * 1000), int(end.timestamp() * 1000)
