"""Requests that come for every message: a command and its header are read from the JSON in one step.

    {"code":310,"extFields":{"a":…},"flag":0, …}

Other requests take two steps, with a copy of the fields in between. The first bytes identify the request, because all
stock clients write them alike. A header that is written in another way, or that does not fit, takes the two steps,
which judge it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from wire.codes import RequestCode
from wire.compiled import IS_COMPILED
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
    """A ``JsonHeader`` whose fields are of a declared class."""

    extFields: H  # noqa: N815
    code: Int32 = 0
    flag: Int32 = 0
    language: str = "JAVA"
    opaque: Int32 = NO_OPAQUE
    remark: str | None = None
    serializeTypeCurrentRPC: str | None = None  # noqa: N815
    version: Int32 = 0


def decoder(header: type[Header]) -> Callable[[bytes], Any]:
    """Return a decoder of a ``WholeHeader`` with fields of a class."""
    return msgspec.json.Decoder(WholeHeader[header], strict=False).decode  # type: ignore[valid-type]


def whole_headers(*, learns: bool = IS_COMPILED) -> dict[bytes, WholeReader]:
    """Return the readers of one server, by the first bytes of the headers that they read.

    :param learns: True if the readers learn forms of headers; interpreted code parses more quickly.
    """
    sends, ends = decoder(ShortSendMessageRequest), decoder(EndTransactionRequest)
    readers = {
        RequestCode.SEND_MESSAGE_V2: send_reader(sends, learns=learns),
        RequestCode.SEND_BATCH_MESSAGE: WholeReader(sends),
        RequestCode.END_TRANSACTION: end_reader(ends, learns=learns),
        RequestCode.PULL_MESSAGE: WholeReader(decoder(PullMessageRequest)),
    }
    return {start_of(code): reader for code, reader in readers.items()}


def start_of(code: RequestCode) -> bytes:
    """Return the first bytes of a header of this code, as all stock clients write them."""
    return f'{{"code":{code},"extFields"'[:WHOLE_START_BYTES].encode()
