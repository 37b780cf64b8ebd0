"""Common parts of the tests of sending: short headers, batches, and refusals."""

from __future__ import annotations

from typing import Any

from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.headers.send import ShortSendMessageRequest
from wire.message.batch import BatchPart, build_batch
from wire.message.properties import build_properties

BATCH = RequestCode.SEND_BATCH_MESSAGE


def refused(answer: RemotingCommand) -> tuple[int, str]:
    """Code and remark of an answer of the send path, which always tells region and tracing."""
    assert answer.ext_fields == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
    return answer.code, answer.remark or ""


def short(header: Any) -> Any:
    """Return the same header with one-letter names."""
    names = type(header).__annotations__
    return ShortSendMessageRequest(**{name: getattr(header, name) for name in names})


def batch(*parts: tuple[bytes, dict[str, str]]) -> bytes:
    return build_batch([BatchPart(index, body, build_properties(map_)) for index, (body, map_) in enumerate(parts)])
