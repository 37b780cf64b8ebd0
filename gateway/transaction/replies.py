"""The sources of outcomes, and the replies that they get."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.store.put_result import PutStatus
from wire.codes import ResponseCode

Source = tuple[str, object]
"""The asker for an outcome: ``producer``, ``check`` … with the address, or ``broker`` with the reason."""
FORGOTTEN: Source = ("somebody", "before the broker's last start, or too long ago to be remembered")


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request for an outcome."""

    code: ResponseCode
    remark: str | None = None


Answer = Callable[[Reply], None]
SUCCESS: Final = Reply(ResponseCode.SUCCESS)

REPLY_OF = {
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
}
"""The response code for each failure of an append. All other failures are SYSTEM_ERROR, as upstream."""


WITHOUT_COPY = {
    PutStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    PutStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
}
"""The response code for an outcome that is on disk here, and that too few slaves have."""


def stored_reply(status: PutStatus) -> Reply:
    """Return the reply for an outcome that is stored."""
    code = WITHOUT_COPY.get(status)
    return SUCCESS if code is None else Reply(code, "the outcome is on disk here, and too few slaves have it")


def source_text(source: Source) -> str:
    """Describe a source for people: ``producer 10.0.0.7:40212``."""
    kind, who = source
    if isinstance(who, tuple) and len(who) == 2:
        who = f"{who[0]}:{who[1]}"
    return f"{kind} {who}"


def tell(answer: Answer | None, reply: Reply) -> None:
    """Call ``answer`` with the reply, unless ``answer`` is None."""
    if answer is not None:
        answer(reply)
