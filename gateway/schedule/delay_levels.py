"""The delay levels: ``messageDelayLevel`` in milliseconds, with levels counted from 1.

Upstream behaviour: ``ScheduleMessageService.parseDelayLevel``. A level above the last one waits as long as the last
one; level 0 and below means "now".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from gateway.errors import GatewayError

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL = re.compile(r"(\d{1,9})([smhd])")


class DelayLevels(msgspec.Struct, frozen=True):
    """The delays of levels 1, 2, …, in milliseconds."""

    delays_ms: Sequence[int]

    @classmethod
    def parse(cls, text: str) -> DelayLevels:
        """Parse ``1s 5s 10s 1m 2h``: numbers with the units s, m, h or d, separated by spaces.

        :raises GatewayError: there is no level, or a level is not a number with a unit.
        """
        delays = []
        for word in text.split():
            match = _LEVEL.fullmatch(word)
            if match is None:
                raise GatewayError(
                    f"messageDelayLevel: {word!r} is not a delay; write a number and s, m, h or d, like 10s"
                )
            delays.append(int(match[1]) * _UNITS_MS[match[2]])
        if not delays:
            raise GatewayError("messageDelayLevel: needs at least one delay, like 1s 5s 10s")
        return cls(tuple(delays))

    @property
    def last(self) -> int:
        """The highest level."""
        return len(self.delays_ms)

    def clip(self, level: int) -> int:
        """Return the level, limited to 0 … last; a negative level becomes 0, which means "now"."""
        return max(0, min(level, self.last))

    def delay_ms(self, level: int) -> int:
        """Return how long level 1 … last waits, in milliseconds; levels above the last wait as long as the last."""
        return self.delays_ms[min(level, self.last) - 1]
