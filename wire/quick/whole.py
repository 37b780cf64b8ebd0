"""Requests that come for every message: a command and its header are read from the JSON in one step.

    {"code":310,"extFields":{"a":…},"flag":0, …}

Otherwise it takes two, with a copy of the fields in between. Told by the first bytes, which all stock clients write
alike; what is written in another way, or does not fit, takes the two steps and is judged there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import msgspec

from wire.codes import RequestCode
from wire.frame import WholeReader
from wire.headers.declare import Header
from wire.headers.pull import PullMessageRequest
from wire.headers.send import ShortSendMessageRequest
from wire.headers.transaction import EndTransactionRequest
from wire.json_header import NO_OPAQUE, WHOLE_START_BYTES, Int32
from wire.quick.ended import end_reader
from wire.quick.sent import send_reader

H = TypeVar("H", bound=Header)


class WholeHeader(msgspec.Struct, Generic[H], forbid_unknown_fields=True, gc=False):
    """``JsonHeader`` with fields of a declared class."""

    extFields: H  # noqa: N815
    code: Int32 = 0
    flag: Int32 = 0
    language: str = "JAVA"
    opaque: Int32 = NO_OPAQUE
    remark: str | None = None
    serializeTypeCurrentRPC: str | None = None  # noqa: N815
    version: Int32 = 0


def decoder(header: type[Header]) -> Callable[[bytes], Any]:
    """What reads a ``WholeHeader`` with fields of a class."""
    return msgspec.json.Decoder(WholeHeader[header], strict=False).decode  # type: ignore[valid-type]


WHOLE_HEADERS: Final[dict[bytes, WholeReader]] = {
    f'{{"code":{code},"extFields"'[:WHOLE_START_BYTES].encode(): reader
    for code, reader in (
        (RequestCode.SEND_MESSAGE_V2, send_reader(decoder(ShortSendMessageRequest))),
        (RequestCode.SEND_BATCH_MESSAGE, WholeReader(decoder(ShortSendMessageRequest))),
        (RequestCode.END_TRANSACTION, end_reader(decoder(EndTransactionRequest))),
        (RequestCode.PULL_MESSAGE, WholeReader(decoder(PullMessageRequest))),
    )
}
"""By their first bytes: what reads them."""
