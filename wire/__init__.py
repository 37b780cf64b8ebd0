"""The bytes of Apache RocketMQ's remoting protocol and disk files, read into typed values and written back.

Nothing here does I/O, reads a clock, draws random numbers or starts threads. Bytes come in as arguments and go out as
return values. All code for sockets, disks or time is in the package ``gateway``.

The names below are enough to speak the protocol over any transport: feed ``Connection``, look at ``RemotingCommand``,
read its fields with ``parse_header`` and its messages with ``parse_records``. Header classes are in ``wire.headers``,
JSON bodies in ``wire.bodies``, file formats in ``wire.disk``.

Names are loaded at their first use, so that users of the codes alone do not load a JSON reader.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from wire.codes import (
        SERVER_VERSION,
        LanguageCode,
        RequestCode,
        ResponseCode,
        SerializeType,
        request_code_name,
        response_code_name,
    )
    from wire.command import RemotingCommand
    from wire.connection import Connection
    from wire.errors import (
        BodyError,
        FieldError,
        FrameError,
        HeaderError,
        LayoutError,
        LocalError,
        RecordError,
        RemoteError,
        WireError,
    )
    from wire.frame import MAX_FRAME_BYTES, build_frame, build_frame_head, parse_frame
    from wire.headers.declare import Header, build_header, parse_header
    from wire.message.record import OutgoingMessage, StoredMessage, build_record, parse_record, parse_records

# Public name → the module below this package that has it.
_MODULES: Final = {
    "BodyError": "errors",
    "Connection": "connection",
    "FieldError": "errors",
    "FrameError": "errors",
    "Header": "headers.declare",
    "HeaderError": "errors",
    "LanguageCode": "codes",
    "LayoutError": "errors",
    "LocalError": "errors",
    "MAX_FRAME_BYTES": "frame",
    "OutgoingMessage": "message.record",
    "RecordError": "errors",
    "RemoteError": "errors",
    "RemotingCommand": "command",
    "RequestCode": "codes",
    "ResponseCode": "codes",
    "SERVER_VERSION": "codes",
    "SerializeType": "codes",
    "StoredMessage": "message.record",
    "WireError": "errors",
    "build_frame": "frame",
    "build_frame_head": "frame",
    "build_header": "headers.declare",
    "build_record": "message.record",
    "parse_frame": "frame",
    "parse_header": "headers.declare",
    "parse_record": "message.record",
    "parse_records": "message.record",
    "request_code_name": "codes",
    "response_code_name": "codes",
}

__all__ = [
    "MAX_FRAME_BYTES",
    "SERVER_VERSION",
    "BodyError",
    "Connection",
    "FieldError",
    "FrameError",
    "Header",
    "HeaderError",
    "LanguageCode",
    "LayoutError",
    "LocalError",
    "OutgoingMessage",
    "RecordError",
    "RemoteError",
    "RemotingCommand",
    "RequestCode",
    "ResponseCode",
    "SerializeType",
    "StoredMessage",
    "WireError",
    "build_frame",
    "build_frame_head",
    "build_header",
    "build_record",
    "parse_frame",
    "parse_header",
    "parse_record",
    "parse_records",
    "request_code_name",
    "response_code_name",
]


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
