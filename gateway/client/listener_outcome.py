"""The result of one call of a listener."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.client.message import ReceivedMessage


@dataclass(frozen=True, slots=True)
class ListenerOutcome:
    """The result for the messages of one call: ``failed`` messages come again, the other messages are consumed."""

    failed: Sequence[ReceivedMessage] = ()
    delay_level: int = 0
    error: BaseException | None = None


CONSUMED: Final = ListenerOutcome()
LAPSED: Final = ListenerOutcome()
"""The result if the listener was not called, because other members may have the messages by now."""
