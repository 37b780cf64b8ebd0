"""What those who give an outcome say about themselves, and what they are told."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.store.put_result import PutStatus
from wire.codes import ResponseCode

Source = tuple[str, object]
"""Who asked: ``producer``, ``check`` … and the address; or ``broker`` and why."""
FORGOTTEN: Source = ("somebody", "before the broker's last start, or too long ago to be remembered")


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of an outcome, for the one who asked for it."""

    code: ResponseCode
    remark: str | None = None


Answer = Callable[[Reply], None]
SUCCESS: Final = Reply(ResponseCode.SUCCESS)

REPLY_OF = {
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
}
"""Response code of an append that failed; SYSTEM_ERROR for the others, as upstream."""


def source_text(source: Source) -> str:
    """Describe for people who asked: ``producer 10.0.0.7:40212``."""
    kind, who = source
    if isinstance(who, tuple) and len(who) == 2:
        who = f"{who[0]}:{who[1]}"
    return f"{kind} {who}"


def tell(answer: Answer | None, reply: Reply) -> None:
    """Give the reply to the one who asked, if anybody listens."""
    if answer is not None:
        answer(reply)
