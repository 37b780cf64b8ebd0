"""Messages that arrive and a clock by hand, for what waits for messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass
class Clock:
    """Epoch milliseconds that pass when told to."""

    now_ms: int = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@dataclass
class Sent:
    """A sent message: its properties."""

    property_map: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Message:
    """A message that was stored and shown."""

    topic: str = "orders"
    queue_id: int = 0
    queue_offset: int = 7
    tags_code: int = 0
    message: Sent = field(default_factory=Sent)

    def each(self) -> tuple[Message]:
        """Itself: it came alone."""
        return (self,)


@dataclass
class Neighbours:
    """Messages of one queue that came together."""

    messages: list[Message]
    topic: str = "orders"
    queue_id: int = 0

    def each(self) -> Iterable[Message]:
        return self.messages
